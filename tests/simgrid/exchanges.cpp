/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchanges of src/sim/links over SimGrid's links, which share max-min fairly: prints when the
 * last member has the sum. Every member has a card of the same bandwidth each way, and no message
 * meets another one elsewhere; a pair of cards is one latency apart.
 *
 * Usage: exchanges WAY MEMBERS BYTES THIN CONNECTIONS   (WAY: star, ring, direct; THIN: how many
 * times less the card of member 0 carries; CONNECTIONS: over which a member sends at a time, in
 * direct)
 */
#include <simgrid/s4u.hpp>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

static const double bandwidth = 1.25e9, latency = 25e-6;
static int members;
static double bytes; /* of a gradient */

static size_t at_a_time; /* connections over which a member sends */

static int number = 1; /* what messages point to */

/* Where a member gets what others send it in a phase. What is sent there begins to move at once,
 * whether or not the member looks for it. */
static sg4::Mailbox *box(const std::string &phase, int to)
{
    return sg4::Mailbox::by_name(phase + ' ' + std::to_string(to));
}

static void send(const std::string &phase, int to, double sent)
{
    box(phase, to)->put_init(&number, uint64_t(sent))->detach();
}

static void get(const std::string &phase, int own, size_t messages)
{
    for (size_t i = 0; i < messages; i++)
        box(phase, own)->get<int>();
}

/* Sends to all of `others`, over a connection to each, and gets as much from them. The connections
 * share the card; those beyond at_a_time begin as soon as another one has carried all. */
static void exchange(const char *phase, int own, const std::vector<int> &others, double sent,
                     std::vector<sg4::CommPtr> &going)
{
    for (int other : others) {
        if (going.size() == at_a_time)
            going.erase(going.begin() + sg4::Comm::wait_any(going));
        going.push_back(box(phase, other)->put_async(&number, uint64_t(sent)));
    }
    get(phase, own, others.size());
}

static void end(std::vector<sg4::CommPtr> &going)
{
    for (auto &one : going)
        one->wait();
}

/* All others, from the one after `own` on. */
static std::vector<int> after(int own)
{
    std::vector<int> found;
    for (int turn = 1; turn < members; turn++)
        found.push_back((own + turn) % members);
    return found;
}

static void direct(int own)
{
    const auto others = after(own);
    std::vector<sg4::CommPtr> going;
    exchange("up", own, others, bytes / members, going);
    exchange("down", own, others, bytes / members, going);
    end(going);
}

/* What comes over one connection, in its order: `messages` in all, as many as `most` at a time.
 * Those at a time share the cards. */
class Connection
{
    sg4::Mailbox *from_;
    std::deque<sg4::CommPtr> coming_;
    int left_;
    int *place_ = nullptr;

    void ask()
    {
        if (left_-- > 0)
            coming_.push_back(from_->get_async<int>(&place_));
    }

  public:
    Connection(sg4::Mailbox *from, int messages, int most) : from_(from), left_(messages)
    {
        for (int i = 0; i < most; i++)
            ask();
    }
    void take()
    {
        coming_.front()->wait();
        coming_.pop_front();
        ask();
    }
};

/* Two at a time, so that no latency is waited for at a thin card. */
static void ring(int own)
{
    const int next = (own + 1) % members, steps = 2 * (members - 1);
    Connection last(box("step", own), steps, 2);
    for (int step = 0; step < steps; step++) {
        send("step", next, bytes / members);
        last.take();
    }
}

/* All to member 0, each a whole gradient, at the same time. */
static void star(int own)
{
    if (own > 0)
        send("star", 0, bytes);
    else
        get("star", own, size_t(members) - 1);
}

/* ---- */

/* `phases`: in which a member gets what comes, ready or not. */
struct Way {
    const char *name;
    void (*play)(int own);
    std::vector<const char *> phases;
};

static const Way ways[] = {
    {"star", star, {"star"}},
    {"ring", ring, {}},
    {"direct", direct, {"up", "down"}},
};

static void play(const std::string &name, const std::vector<sg4::Host *> &hosts)
{
    for (const Way &way : ways)
        for (int own = 0; own < members && name == way.name; own++) {
            auto actor = sg4::Actor::create("member", hosts[own], [&way, own]() { way.play(own); });
            for (const char *phase : way.phases)
                box(phase, own)->set_receiver(actor);
        }
}

int main(int count, char **arguments)
{
    sg4::Engine engine(&count, arguments);
    if (count != 6)
        return 2;
    const std::string way = arguments[1];
    members = std::atoi(arguments[2]);
    bytes = std::atof(arguments[3]);
    const double thin = std::atof(arguments[4]);
    at_a_time = std::strtoul(arguments[5], nullptr, 10);
    sg4::Engine::set_config("network/model:CM02");
    sg4::Engine::set_config("network/TCP-gamma:0");
    sg4::Engine::set_config("network/crosstraffic:0");
    sg4::Engine::set_config("contexts/stack-size:64");
    auto *zone = sg4::create_star_zone("cards");
    std::vector<sg4::Host *> hosts;
    for (int i = 0; i < members; i++) {
        const std::string name = std::to_string(i);
        const double carries = i == 0 ? bandwidth / thin : bandwidth;
        hosts.push_back(zone->create_host("host " + name, 1e9));
        auto *out = zone->create_link("out " + name, carries)->set_latency(latency)->seal();
        auto *in = zone->create_link("in " + name, carries)->set_latency(0)->seal();
        auto *own = hosts[i]->get_netpoint();
        zone->add_route(own, nullptr, nullptr, nullptr, {sg4::LinkInRoute(out)}, false);
        zone->add_route(nullptr, own, nullptr, nullptr, {sg4::LinkInRoute(in)}, false);
    }
    zone->seal();
    play(way, hosts);
    engine.run();
    std::printf("%.9f\n", sg4::Engine::get_clock());
    return 0;
}
