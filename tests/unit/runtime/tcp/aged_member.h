/* SPDX-License-Identifier: Apache-2.0 */
/* A member's certificate as it was before workers talked to each other. */
#ifndef TEST_TCP_AGED_MEMBER_H
#define TEST_TCP_AGED_MEMBER_H

/* That in the member's folder of an authority's directory, and among the issued ones, gets this
 * extended key usage alone: "clientAuth", "serverAuth". */
void age_member(const char *directory, const char *name, const char *usage);

#endif
