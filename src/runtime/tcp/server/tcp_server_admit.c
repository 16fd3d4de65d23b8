/* SPDX-License-Identifier: Apache-2.0 */
/* Who is let in, and as whom: from HELLO to the worker's arrival. */
#include <stdio.h>
#include <string.h>

#include "coding/coefficients.h"
#include "protocol/form.h"
#include "protocol/wire/wire_batch.h"
#include "runtime/tcp/server/tcp_server.h"

enum {
    TAKEN_FRACTION = 4, /* of the silence that counts as absence */
    ANSWERS_MOST = 64,  /* to what is asked of sums among workers, in a round */
    VIEWERS_MOST = 256,
};

/* How often a worker may take who seat: at a time, and a second for good. Each costs a handshake,
 * and perhaps the plan; and arrivals are used up (tarry_server_arrivals_left). */
static const bucket_size ENTRIES = {256, 4};

static bool is_zero(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* For how long the holder of an id must have been quiet before another process gets it. What came
 * in while the server was itself held up may still be unread, and counts as heard. */
static uint64_t quiet_limit_ns(const tarry_tcp_server *server, uint64_t now)
{
    uint64_t since = now - server->ticked_ns;
    return server->spared ? TARRY_NEVER
                          : server->settings.server.silence_ns / TAKEN_FRACTION + since;
}

static wire_reason admit_worker(tarry_tcp_server *server, peer *who, const wire_hello *hello)
{
    roster_claim claim = {
        .allowed = WIRE_ANY_WORKER,
        .wanted = hello->worker,
        .instance = hello->instance,
    };
    if (!who->trusted && who->identity.role != CREDENTIAL_WORKER)
        return WIRE_REFUSED_IDENTITY;
    if (!who->trusted && who->identity.worker != CREDENTIAL_ANY_ID)
        claim.allowed = who->identity.worker;
    else if (!who->trusted && server->settings.secure.bits != 0)
        return WIRE_REFUSED_IDENTITY;
    uint32_t worker;
    uint64_t now = tcp_server_now(server);
    wire_reason reason =
        roster_find(&server->roster, &claim, now, quiet_limit_ns(server, now), &worker);
    if (reason != 0)
        return reason;
    bool bound = claim.allowed != WIRE_ANY_WORKER;
    if (!bucket_take(&server->members[worker].entries[bound], ENTRIES, 1, now))
        return WIRE_REFUSED_ARRIVALS;
    peer *before = tcp_server_peer(server, worker);
    if (before != NULL && bound && !server->roster.seats[worker].bound)
        peer_refuse(before, WIRE_REFUSED_TAKEN,
                    "the worker whose credential names this id is here");
    else if (before != NULL)
        peer_end(before, 0);
    who->worker = worker;
    if (roster_sit(&server->roster, worker, who, &claim, now) == ROSTER_RESTARTED)
        server->members[worker].restarted = true;
    memcpy(server->members[worker].rack, hello->rack, sizeof(hello->rack));
    return 0;
}

/* Whether other workers can talk to it, where they have to. */
static bool can_meet(const tarry_tcp_server *server, const peer *who)
{
    X509 *certificate = channel_certificate(who->channel);
    return server->meetings == NULL || certificate == NULL || identity_is_for_both(certificate);
}

static wire_reason admit_viewer(const tarry_tcp_server *server, const peer *who)
{
    if (!who->trusted && who->identity.role != CREDENTIAL_VIEWER)
        return WIRE_REFUSED_IDENTITY;
    return server->viewers < VIEWERS_MOST ? 0 : WIRE_REFUSED_FULL;
}

static wire_reason admit_role(tarry_tcp_server *server, peer *who, const wire_hello *hello)
{
    if (hello->role == WIRE_ROLE_VIEWER)
        return admit_viewer(server, who);
    if (hello->ranking != COEFFICIENTS_VERSION)
        return WIRE_REFUSED_RANKING;
    return can_meet(server, who) ? admit_worker(server, who, hello) : WIRE_REFUSED_IDENTITY;
}

/* Whether memory can be shared. */
static bool is_here(const tarry_tcp_server *server, const wire_hello *hello)
{
    return !is_zero(server->host_id, WIRE_ID_BYTES) &&
           memcmp(server->host_id, hello->host, WIRE_ID_BYTES) == 0;
}

static void send_welcome(tarry_tcp_server *server, peer *who, const wire_hello *hello)
{
    const tarry_server_settings *settings = &server->settings.server;
    bool worker = hello->role == WIRE_ROLE_WORKER;
    bool knows_job = memcmp(hello->job, server->job_id, WIRE_ID_BYTES) == 0;
    bool knows_plan = memcmp(hello->plan, server->base.host->plan->digest, WIRE_DIGEST_BYTES) == 0;
    wire_welcome welcome = {
        .version = WIRE_VERSION,
        .worker = who->worker,
        .workers = server->base.host->plan->workers,
        .parameters = server->base.host->numbers,
        .dimension = server->base.host->cut.dimension,
        .stripe_length = server->base.host->cut.stripe_length,
        .keep = (uint8_t)settings->keep,
        .ahead = settings->keep == TARRY_KEEP_CREDITED ? settings->ahead : 0,
        .keeps_stale = settings->fill == TARRY_FILL_STALE,
        .ships = server->settings.ship != NULL,
        .everywhere = settings->sum == TARRY_SUM_EVERYWHERE,
        .compress = settings->compress,
        .compress_share = form_of(settings).share,
        .compress_rank = settings->compress_rank,
        .compress_first = settings->compress_first,
        .compress_from = settings->compress_from,
        .compress_down = settings->compress_down,
        .conditioning_limit = settings->conditioning_limit,
        .silence_ns = settings->silence_ns,
        .plan_bytes = worker && !knows_plan ? server->plan_size : 0,
        .job_bytes = worker && !knows_job ? server->settings.job_size : 0,
    };
    if (wire_workers_round(&welcome)) {
        welcome.compress_exact = settings->compress_exact;
        welcome.compress_seed = settings->compress_seed;
    }
    memcpy(welcome.job, server->job_id, WIRE_ID_BYTES);
    memcpy(welcome.plan, server->base.host->plan->digest, WIRE_DIGEST_BYTES);
    const bool secure = server->settings.secure.bits != 0;
    if (worker && !secure && is_here(server, hello)) {
        if (channel_is_unix(who->channel) && !tcp_server_is_everywhere(server))
            tcp_server_share(server, who);
        else if (!channel_is_unix(who->channel))
            snprintf(welcome.near, sizeof(welcome.near), "%s", tcp_server_near_socket(server));
    }
    if (worker)
        tcp_server_send_rules(server, who);
    if (worker && settings->compress == TARRY_COMPRESS_POWERSGD) {
        welcome.compress_matrix_count = settings->compress_matrix_count;
        memcpy(welcome.compress_matrices, settings->compress_matrices,
               settings->compress_matrix_count * sizeof(*settings->compress_matrices));
    }
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_WELCOME_BYTES];
    channel_send(who->channel, frame, wire_welcome_encode(&welcome, frame));
    if (welcome.plan_bytes > 0)
        tcp_server_send_plan(server, who);
    if (welcome.job_bytes > 0)
        tcp_server_send_job(server, who);
}

/* What an honest worker says in a round. */
double tcp_server_messages_of(const tarry_tcp_server *server, uint32_t worker)
{
    double said = tcp_server_is_everywhere(server) ? ANSWERS_MOST : server->base.host->cut.stripes;
    return (double)tarry_plan_load(server->base.host->plan, worker) + said;
}

/* A stripe is the longest that comes, unless it is very short, or as many reports as a batch has.
 */
static uint32_t most_length(const tarry_tcp_server *server)
{
    size_t part = CODEC_HEADER_BYTES + server->base.host->pool.length * sizeof(float);
    size_t most = WIRE_BATCH_HEAD_BYTES + (size_t)WIRE_BATCH_MOST * WIRE_BATCH_REPORT_BYTES;
    return (uint32_t)(part > most ? part : most);
}

/* It is what it says it is from now on. */
static void begin(tarry_tcp_server *server, peer *who, wire_role role)
{
    newcomers_remove(&server->peers, who);
    if (role == WIRE_ROLE_VIEWER) {
        who->state = PEER_VIEWER;
        who->drained = true;
        server->viewers++;
        return;
    }
    who->state = PEER_WELCOMED;
    peer_limits_begin(who, tcp_server_messages_of(server, who->worker),
                      server->base.host->plan->origins);
    channel_allow(who->channel, most_length(server));
}

bool tcp_server_admit(void *user, peer *who, const wire_hello *hello)
{
    tarry_tcp_server *server = user;
    wire_reason reason = 0;
    char why[WIRE_TEXT_BYTES + 1] = "";
    if (hello->oldest > WIRE_VERSION || hello->newest < WIRE_VERSION)
        reason = WIRE_REFUSED_VERSION;
    else if (server->closing)
        reason = WIRE_REFUSED_CLOSING;
    else
        reason = admit_role(server, who, hello);
    if (reason == WIRE_REFUSED_VERSION)
        snprintf(why, sizeof(why), "%s: the server has %u, the other side %u to %u",
                 wire_reason_text(reason), (unsigned)WIRE_VERSION, (unsigned)hello->oldest,
                 (unsigned)hello->newest);
    if (reason == WIRE_REFUSED_RANKING)
        snprintf(why, sizeof(why), "has version %u of ranks and coefficients, the server has %u",
                 (unsigned)hello->ranking, (unsigned)COEFFICIENTS_VERSION);
    if (reason == WIRE_REFUSED_IDENTITY && !can_meet(server, who))
        snprintf(why, sizeof(why),
                 "its certificate is for connections to the server alone, and "
                 "workers make the sum here: tarry keys renew");
    if (reason != 0) {
        peer_refuse(who, reason, why);
        return false;
    }
    begin(server, who, hello->role);
    send_welcome(server, who, hello);
    return true;
}

bool tcp_server_take_ready(void *user, peer *who, const wire_ready *ready)
{
    tarry_tcp_server *server = user;
    if (memcmp(ready->plan, server->base.host->plan->digest, WIRE_DIGEST_BYTES) != 0) {
        if (who->replanned)
            return true; /* it was said of a plan before; the next word is on its way */
        peer_refuse(who, WIRE_REFUSED_DATA, "goes by another plan");
        return false;
    }
    const uint8_t *wanted = server->settings.data;
    if (!is_zero(wanted, TARRY_DIGEST_SIZE) && !is_zero(ready->data, WIRE_DIGEST_BYTES) &&
        memcmp(wanted, ready->data, WIRE_DIGEST_BYTES) != 0) {
        peer_refuse(who, WIRE_REFUSED_DATA, "");
        return false;
    }
    char why[WIRE_TEXT_BYTES + 1];
    if (who->state == PEER_WELCOMED &&
        (!tcp_server_sums_alike(server, who, ready, why, sizeof(why)) ||
         !tcp_server_masks_alike(server, who, ready, why, sizeof(why)))) {
        peer_refuse(who, WIRE_REFUSED_DATA, why);
        return false;
    }
    switch (who->state) {
    case PEER_WELCOMED:
        who->state = PEER_READY;
        server->members[who->worker].numerics = ready->numerics;
        tcp_server_meet(server, who, ready);
        tcp_server_join(server, who);
        break;
    case PEER_TURNING:
        who->state = PEER_READY;
        tcp_server_send_held(server, who);
        break;
    case PEER_NEW:
    case PEER_READY:
    case PEER_VIEWER:
    case PEER_OVER:
        break;
    }
    return who->state != PEER_OVER;
}
