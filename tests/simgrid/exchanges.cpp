/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchanges of src/sim/links over SimGrid's links, which share max-min fairly: prints when the
 * last member has the sum. Every member has a card of the same bandwidth each way, and no message
 * meets another one elsewhere; a pair of cards is one latency apart.
 *
 * Usage: exchanges WAY MEMBERS BYTES ROWS THIN   (WAY: star, ring, direct, grid, tree; THIN: how
 * many times less the card of member 0 carries)
 */
#include <simgrid/s4u.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

extern "C" {
#include "route/route_tree.h"
}

namespace sg4 = simgrid::s4u;

static const double bandwidth = 1.25e9, latency = 25e-6;
static int members, rows;
static double bytes; /* of a gradient */

static int number = 1; /* what messages point to */

/* Tells messages of a pair apart: each has a phase. */
static sg4::Mailbox *box(const char *phase, int from, int to)
{
    return sg4::Mailbox::by_name(std::string(phase) + ' ' + std::to_string(from) + ' ' +
                                 std::to_string(to));
}

/* Sends to all of `others` in their order, some at a time so that no latency is waited for, while
 * as many come in. */
static void exchange(const char *phase, int own, const std::vector<int> &others, double sent)
{
    const size_t at_a_time = 16;
    std::vector<sg4::CommPtr> coming, going;
    std::vector<int *> places(others.size());
    for (size_t i = 0; i < others.size(); i++)
        coming.push_back(box(phase, others[i], own)->get_async<int>(&places[i]));
    for (size_t i = 0; i < others.size(); i++) {
        if (i >= at_a_time)
            going[i - at_a_time]->wait();
        going.push_back(box(phase, own, others[i])->put_async(&number, uint64_t(sent)));
    }
    for (auto &one : going)
        one->wait();
    for (auto &one : coming)
        one->wait();
}

/* Those of a ring of `count` from the one after `own` on: first + stride * place. */
static std::vector<int> after(int first, int stride, int count, int place)
{
    std::vector<int> found;
    for (int turn = 1; turn < count; turn++)
        found.push_back(first + stride * ((place + turn) % count));
    return found;
}

static void direct(int own)
{
    const auto others = after(0, 1, members, own);
    exchange("up", own, others, bytes / members);
    exchange("down", own, others, bytes / members);
}

static void grid(int own)
{
    const int columns = members / rows, row = own / columns, column = own % columns;
    const auto in_row = after(row * columns, 1, columns, column);
    const auto in_column = after(column, columns, rows, row);
    exchange("row up", own, in_row, bytes / columns);
    exchange("column up", own, in_column, bytes / members);
    exchange("column down", own, in_column, bytes / members);
    exchange("row down", own, in_row, bytes / columns);
}

static void ring(int own)
{
    const int next = (own + 1) % members, last = (own + members - 1) % members;
    for (int step = 0; step < 2 * (members - 1); step++) {
        int *place;
        auto comes = box("step", last, own)->get_async<int>(&place);
        auto goes = box("step", own, next)->put_async(&number, uint64_t(bytes / members));
        comes->wait();
        goes->wait();
    }
}

/* All to member 0, each a whole gradient, at the same time. */
static void star(int own)
{
    if (own > 0) {
        box("star", own, 0)->put(&number, uint64_t(bytes));
        return;
    }
    std::vector<sg4::CommPtr> coming;
    std::vector<int *> places(members);
    for (int from = 1; from < members; from++)
        coming.push_back(box("star", from, 0)->get_async<int>(&places[from]));
    for (auto &one : coming)
        one->wait();
}

/* ---- two trees: a member's part of one of them, up and then down ---- */

static std::string block_name(const char *way, int tree, int block)
{
    return std::string(way) + std::to_string(tree) + ' ' + std::to_string(block);
}

static void get_from(const std::string &phase, int own, const std::vector<int> &others)
{
    std::vector<sg4::CommPtr> coming;
    std::vector<int *> places(others.size());
    for (size_t i = 0; i < others.size(); i++)
        coming.push_back(box(phase.c_str(), others[i], own)->get_async<int>(&places[i]));
    for (auto &one : coming)
        one->wait();
}

static const int most_blocks = 64, block_numbers = 1 << 15;

static int tree_blocks()
{
    const int wanted = int(bytes / 8) / block_numbers + 1;
    return wanted < most_blocks ? wanted : most_blocks;
}

static std::vector<int> children_of(int tree, int own)
{
    uint32_t found[ROUTE_CHILDREN];
    const uint32_t count =
        route_tree_children(uint32_t(members), uint32_t(tree), uint32_t(own), found);
    return std::vector<int>(found, found + count);
}

static void tree_member(int own, int tree, bool goes_down)
{
    const uint32_t above = route_tree_parent(uint32_t(members), uint32_t(tree), uint32_t(own));
    const bool is_root = above == UINT32_MAX;
    const auto below = children_of(tree, own);
    const double sent = bytes / 2 / tree_blocks();
    std::vector<sg4::CommPtr> going;
    auto send = [&](const std::string &phase, int to) {
        going.push_back(box(phase.c_str(), own, to)->put_async(&number, uint64_t(sent)));
    };
    for (int block = 0; block < tree_blocks(); block++) {
        const std::string up = block_name("up", tree, block),
                          down = block_name("down", tree, block);
        const std::string turns = block_name("turns", tree, block);
        if (!goes_down) {
            get_from(up, own, below);
            if (is_root)
                box(turns.c_str(), own, own)->put(&number, 0);
            else
                send(up, int(above));
        } else {
            if (is_root)
                box(turns.c_str(), own, own)->get<int>();
            else
                get_from(down, own, {int(above)});
            for (int child : below)
                send(down, child);
        }
    }
    for (auto &one : going)
        one->wait();
}

static void play(const std::string &way, int own)
{
    if (way == "direct")
        direct(own);
    else if (way == "grid")
        grid(own);
    else if (way == "ring")
        ring(own);
    else
        star(own);
}

int main(int count, char **arguments)
{
    sg4::Engine engine(&count, arguments);
    if (count != 6)
        return 2;
    const std::string way = arguments[1];
    members = std::atoi(arguments[2]);
    bytes = std::atof(arguments[3]);
    rows = std::atoi(arguments[4]);
    const double thin = std::atof(arguments[5]);
    sg4::Engine::set_config("network/model:CM02");
    sg4::Engine::set_config("network/TCP-gamma:0");
    sg4::Engine::set_config("network/crosstraffic:0");
    sg4::Engine::set_config("contexts/stack-size:64");
    auto *zone = sg4::create_full_zone("cards");
    std::vector<sg4::Host *> hosts;
    std::vector<const sg4::Link *> out, in;
    for (int i = 0; i < members; i++) {
        const std::string name = std::to_string(i);
        const double carries = i == 0 ? bandwidth / thin : bandwidth;
        hosts.push_back(zone->create_host("host " + name, 1e9));
        out.push_back(zone->create_link("out " + name, carries)->set_latency(latency)->seal());
        in.push_back(zone->create_link("in " + name, carries)->set_latency(0)->seal());
    }
    for (int from = 0; from < members; from++)
        for (int to = 0; to < members; to++)
            if (from != to)
                zone->add_route(hosts[from]->get_netpoint(), hosts[to]->get_netpoint(), nullptr,
                                nullptr, {sg4::LinkInRoute(out[from]), sg4::LinkInRoute(in[to])},
                                false);
    zone->seal();
    for (int i = 0; i < members; i++)
        if (way != "tree")
            sg4::Actor::create("member", hosts[i], [way, i]() { play(way, i); });
        else
            for (int part = 0; part < 2 * ROUTE_TREES; part++)
                sg4::Actor::create("member", hosts[i],
                                   [i, part]() { tree_member(i, part / 2, part % 2 == 1); });
    engine.run();
    std::printf("%.9f\n", sg4::Engine::get_clock());
    return 0;
}
