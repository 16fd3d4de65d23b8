# SPDX-License-Identifier: Apache-2.0
"""What went is gone: the words of features that were removed occur in no file but those that tell of them.

    gone.py ROOT    ROOT: the repository

docs/tried.md says what each feature was, and why it went.
"""

import pathlib
import re
import subprocess
import sys

GONE = {
    "designs of planes and differences": [
        "--design projective",
        "--design affine",
        "--design difference",
        "design=projective",
        "design=affine",
        "design=difference",
        "TARRY_DESIGN_PROJECTIVE",
        "TARRY_DESIGN_AFFINE",
        "TARRY_DESIGN_DIFFERENCE",
        "design_projective",
        "design_affine",
        "design_difference",
        "field_create",
        "field_multiply",
        "plane_line",
        "plane_pencil",
        "plane_fit",
        "plane_size",
        "test_design_projective",
        "test_design_affine",
        "test_design_difference",
        "test_field",
    ],
    "leaving early": [
        "--early",
        "early=yes",
        "early=no",
        "workers_early",
        "left_early",
        "server_early",
        "model_early",
        "invariants_early",
        "early_parts",
        "TARRY_SETTING_EARLY",
        "FLAG_EARLY",
        "PLANT_FOLD_AFTER_LEAVING",
        "VOTE_UNTOLD",
        "BALLOT_UNTOLD",
        "vote_tell",
        "vote_give_up",
        "vote_stands",
        "server_vote_give_up",
        "server_vote_may_leave",
        "server_vote_mix",
        "server_vote_withdraws",
        "server_open_attempt",
        "server_expects",
        "member_computes",
        "steering_left",
        "steering_links",
        "steering_may_leave",
        "links_begin_round",
        "links_report",
        "uploads_begin",
        "uploads_flow",
        "test_uploads",
        "nobody_joins_an_open_sum",
        "who_computes_is_in_the_sum",
        "who_is_done_leaves",
        "leaves_who_is_not_needed",
        "NODROP",
        "leaving early",
        "leave early",
        "leaves early",
    ],
    "norms": [
        "importance",
        "chunk_norm",
        "chunk-norm",
        "sample_by",
        "TARRY_SAMPLE_UNIFORM",
        "TARRY_SAMPLE_NORM",
        "TARRY_SETTING_IMPORTANCE",
        "tarry_server_norm",
        "tarry_sim_norms",
        "server_norms",
        "server_ranked",
        "order_next_ranked",
        "settings_want_norms",
        "coverage_value",
        "norm_of",
        "vectors_norm",
        "model_norms",
        "invariants_norms",
        "PLANT_BEND_NORM",
        "CODEC_NORM_BYTES",
        "FLAG_NORM",
        "FLAG_RANKED",
    ],
    "pick rules": [
        "dynamic:share",
        "dynamic:capacity",
        "dynamic:fewest",
        "TARRY_PICK_CAPACITY",
        "TARRY_PICK_FEWEST",
        "pick_capacity",
        "pick_fewest",
        "pick_candidate",
        "pick_rule",
        "pick_rule_of",
        "steering_choose",
        "choose_next",
        "test_pick",
    ],
    "relays": [
        "relay",
        "relays",
        "relayed",
        "wire_trunk",
        "trunk",
        "WIRE_ROLE_RELAY",
        "WIRE_ROLE_STANDBY",
        "WIRE_LANE",
        "WIRE_LANE_OPEN",
        "WIRE_LANE_PART",
        "WIRE_LANE_END",
        "WIRE_LANE_BLOB",
        "WIRE_TAKEN",
        "WIRE_HEARD",
        "WIRE_GATHER",
        "WIRE_GATHERED",
        "WIRE_PARENTS",
        "WIRE_ADVERTISE",
        "lanes_create",
        "lane_open",
        "host_gather",
        "gather_create",
        "second_parents",
        "second_parents_choose",
        "relay_grace_ns",
        "relay_batch_ns",
        "relay_deaths",
        "relay_notice_ns",
        "relay_node",
        "relays_died",
        "workers_returned",
        "repair_seconds",
        "repair_times",
        "inner_in",
        "inner_out",
        "TARRY_EVENT_RETURNED",
        "TARRY_EVENT_STALLED",
        "tarry_server_wants",
        "tarry_server_scale",
        "server_return",
        "steering_returned",
        "CREDENTIAL_RELAY",
        "credential_verify_relayed",
        "link_channel",
        "tcp_worker_standby",
        "tcp_server_adrift",
        "model_return",
        "invariants_relay",
        "what_is_adrift_is_not_handed_out",
        "a_signal_waits_for_what_is_owed",
        "PLANT_GATHER_TWICE",
        "PLANT_GATHER_STALE",
        "PLANT_ADRIFT_LOST",
        "fuzz_lanes",
        "fuzz_peer_relay",
        "plain_relay",
        "--relays",
        "--relay-batch",
        "--relay-deaths",
        "--relay-notice",
        "--relay-grace",
        "tarry-relay",
    ],
}
# They tell of what is gone: its page, the changes, the messages that say what to use instead, and the tests of these.
TELL = {
    "CHANGELOG.md",
    "bench/pages/tried.py",
    "docs/tried.md",
    "src/cli/options/gone.c",
    "python/tarry/gone.py",
    "python/tests/middle/test_gone.py",
    "tests/cli/test_gone.py",
    "tests/gone.py",
}


def files(root):
    """The repository's files by name; without git, as in an archive, all but hidden folders and build trees."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, check=False)
    if listed.returncode == 0:
        return [name for name in listed.stdout.decode().split("\0") if name]
    return [str(path.relative_to(root)) for path in root.rglob("*")
            if not any(part.startswith((".", "build")) for part in path.relative_to(root).parts)]


def main():
    root = pathlib.Path(sys.argv[1])
    features = {word: feature for feature, words in GONE.items() for word in words}
    pattern = re.compile(r"(?<![\w])(" + "|".join(map(re.escape, features)) + r")(?![\w])")
    found = []
    for name in files(root):
        path = root / name
        if name in TELL or name.startswith("fuzz/corpus/") or not path.is_file():
            continue
        for word in pattern.findall(name):
            found.append(f"{name}: a file of {features[word]}, which went")
        text = path.read_bytes().decode("utf-8", "replace")
        if not any(word in text for word in features):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for word in pattern.findall(line):
                found.append(f"{name}:{number}: {word}: of {features[word]}, which went")
    print("\n".join(found) if found else "nothing of what is gone is left")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
