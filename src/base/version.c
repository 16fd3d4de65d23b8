/* SPDX-License-Identifier: Apache-2.0 */
#include <tarry/version.h>

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

const char *tarry_version(void)
{
    return TEXT(TARRY_VERSION_MAJOR) "." TEXT(TARRY_VERSION_MINOR) "." TEXT(TARRY_VERSION_PATCH);
}
