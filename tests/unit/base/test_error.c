/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diagnostic.h"
#include "test.h"

TEST(every_error_has_a_text_of_its_own)
{
    for (int a = TARRY_ERROR_MASKS; a <= TARRY_OK; a++) {
        assert_true(strlen(tarry_error_text(a)) > 0);
        assert_string_not_equal(tarry_error_text(a), tarry_error_text(1));
        for (int b = TARRY_ERROR_MASKS; b < a; b++)
            assert_string_not_equal(tarry_error_text(a), tarry_error_text(b));
    }
}

TEST(long_diagnostics_are_cut)
{
    char text[2 * TARRY_DIAGNOSTIC_SIZE];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    tarry_diagnostic diagnostic;
    assert_int_equal(diagnose(&diagnostic, TARRY_ERROR_FILE, "%s", text), TARRY_ERROR_FILE);
    assert_int_equal(strlen(diagnostic.text), TARRY_DIAGNOSTIC_SIZE - 1);
    assert_int_equal(diagnose_no_memory(NULL, "plan"), TARRY_ERROR_NO_MEMORY);
    diagnose_no_memory(&diagnostic, "plan");
    assert_string_equal(diagnostic.text, "plan: out of memory");
}
