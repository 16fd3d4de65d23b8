/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who a certificate says its owner is. The name is the certificate's only common name: "server",
 * "worker-3" (the worker with id 3), "worker" (a worker that may take any id) or "viewer".
 */
#ifndef TCP_IDENTITY_H
#define TCP_IDENTITY_H

#include <openssl/x509.h>
#include <stdbool.h>
#include <stdint.h>

#include <tarry/error.h>

typedef enum credential_role {
    CREDENTIAL_SERVER,
    CREDENTIAL_WORKER,
    CREDENTIAL_VIEWER,
} credential_role;

#define CREDENTIAL_ANY_ID UINT32_MAX
#define CREDENTIAL_IDS 1000000 /* ids are below this, as the workers of a plan are */
#define CREDENTIAL_NAME_SIZE 20

typedef struct credential_identity {
    credential_role role;
    uint32_t worker; /* the id that a worker is bound to, or CREDENTIAL_ANY_ID; else 0 */
} credential_identity;

/* The identity of that name. Errors: FORMAT, for any other text. */
int identity_parse(const char *name, credential_identity *out);
void identity_name(credential_identity identity, char name[CREDENTIAL_NAME_SIZE]);

/*
 * The identity that a certificate states: one common name, and the extended key usage that fits the
 * role (a viewer's clientAuth, all others' both; clientAuth or serverAuth alone of a server or
 * worker if it was made before workers talked to each other). Does not verify it. Errors: FORMAT.
 */
int identity_of_certificate(X509 *certificate, credential_identity *out);
/* Whether it states both usages. */
bool identity_is_for_both(X509 *certificate);

#endif
