/* SPDX-License-Identifier: Apache-2.0 */
/* An engine's address beside that of connections, and bytes that are none. */
#include "runtime/tcp/mesh/direct.h"
#include "test.h"

static const uint8_t OWN[] = {1, 2, 3};

static paired_address address_of(const char *name)
{
    return (paired_address){
        .name = name, .name_size = strlen(name), .own = OWN, .own_size = sizeof(OWN)};
}

TEST(what_is_encoded_is_decoded)
{
    static const char *const names[] = {"", "gloo", "a-name-of-just-32-characters----"};
    static const char *const texts[] = {"direct", "gloo", "a-name-of-just-32-characters----"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const paired_address from = address_of(names[i]);
        paired_address to;
        uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST];
        size_t size;
        char text[PAIRED_NAME_MOST + 1];
        paired_address_encode(&from, NULL, bytes, &size);
        assert_true(paired_address_decode(bytes, size, &to));
        assert_true(paired_address_alike(&from, &to));
        assert_int_equal(to.own_size, sizeof(OWN));
        assert_memory_equal(to.own, OWN, sizeof(OWN));
        assert_int_equal(to.connected_size, 0);
        paired_address_name(&to, text);
        assert_string_equal(text, texts[i]);
    }
}

TEST(engines_of_two_names_are_not_alike)
{
    const paired_address gloo = address_of("gloo"), glue = address_of("glue"),
                         direct = address_of("");
    assert_false(paired_address_alike(&gloo, &glue));
    assert_false(paired_address_alike(&gloo, &direct));
}

/* Bytes behind the engine's are the connections'. */
TEST(the_rest_is_of_connections)
{
    const paired_address from = address_of("gloo");
    paired_address to;
    uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST];
    size_t size;
    paired_address_encode(&from, NULL, bytes, &size);
    bytes[size] = 77;
    assert_true(paired_address_decode(bytes, size + 1, &to));
    assert_int_equal(to.connected_size, 1);
    assert_int_equal(to.connected[0], 77);
}

TEST(any_other_bytes_are_none)
{
    const paired_address from = address_of("gloo");
    paired_address to;
    uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST];
    size_t size;
    paired_address_encode(&from, NULL, bytes, &size);
    for (size_t less = 0; less < size; less++)
        assert_false(paired_address_decode(bytes, less, &to));
    static const uint8_t no_name[] = {0, 0x80}, empty_name[] = {1, 0x80, 0},
                         long_name[] = {2, 0x80, 2, 'a'}, odd_name[] = {3, 0x80, 2, 'a', ' '};
    assert_false(paired_address_decode(no_name, sizeof(no_name), &to));
    assert_false(paired_address_decode(empty_name, sizeof(empty_name), &to));
    assert_false(paired_address_decode(long_name, sizeof(long_name), &to));
    assert_false(paired_address_decode(odd_name, sizeof(odd_name), &to));
}
