# SPDX-License-Identifier: Apache-2.0
"""Options that earlier versions had say what to use instead, on the command line, in job files and in schemes."""

from harness import TarryTest

RELAYS = "no longer exists; let workers connect to the server, with --sum everywhere if its network is too slow"
ADDRESSES = "takes one address, the server's; second connections no longer exist"


class Gone(TarryTest):
    def test_designs(self):
        for design in "affine", "difference", "projective":
            said = f"'{design}' no longer exists; write a file with examples/designs.py, and use file:PATH"
            for command in "train", "serve", "simulate", "plan":
                self.fail_with(2, f"tarry: --design: {said}", command, "--design", design)
            self.fail_with(2, f"tarry: --scheme: partial:design={design}: design: {said}", "simulate", "--scheme",
                           f"partial:design={design}")
            self.write("job.ini", f"design = {design}\n")
            self.fail_with(2, f"tarry: job.ini:1: design: {said}", "plan", "--config", "job.ini")

    def test_rules_of_dynamic_orders(self):
        for rule, use in (("capacity", "whose rounds are shorter"), ("fewest", "whose rounds are shorter"),
                          ("share", "which is the same")):
            said = f"'dynamic:{rule}' no longer exists; use dynamic, {use}"
            for command in "train", "serve", "simulate", "plan":
                self.fail_with(2, f"tarry: --order: {said}", command, "--order", f"dynamic:{rule}")
            self.fail_with(2, f"tarry: --scheme: tarry:order=dynamic:{rule}: order: {said}", "simulate", "--scheme",
                           f"tarry:order=dynamic:{rule}")
            self.write("job.ini", f"order = dynamic:{rule}\n")
            self.fail_with(2, f"tarry: job.ini:1: order: {said}", "plan", "--config", "job.ini")

    def test_norms(self):
        self.fail_with(2, "tarry: --importance: no longer exists; use --sample-chunks K or --batch N for cheaper rounds",
                       "train", "--importance")
        self.fail_with(2, "tarry: --sample-chunks: '6:norm': sampling by norm no longer exists; write K for uniform "
                       "sampling", "train", "--sample-chunks", "6:norm")
        self.fail_with(2, "tarry: --chunk-norm: no longer exists; leave it out, as workers report no norms", "simulate",
                       "--chunk-norm", "lognormal:2/run")
        self.fail_like(2, "tarry: --scheme: .*importance: no longer exists; .*", "simulate", "--scheme",
                       "partial:stop=error:0.2,importance=true")
        self.write("job.ini", "importance = true\n")
        self.fail_like(2, "tarry: job.ini:1: importance: no longer exists; .*", "train", "--config", "job.ini")

    def test_leaving_early(self):
        said = "early: no longer exists; use --sum everywhere to make sums faster where vectors take long"
        for command in "train", "serve", "simulate", "plan":
            self.fail_with(2, f"tarry: --{said}", command, "--early", "yes")
            self.fail_with(2, f"tarry: --{said}", command, "--early=no")
        self.fail_with(2, f"tarry: --scheme: tarry:early=yes: {said}", "simulate", "--scheme", "tarry:early=yes")
        self.write("job.ini", "early = yes\n")
        self.fail_with(2, f"tarry: job.ini:1: {said}", "train", "--config", "job.ini")

    def test_chosen_parts(self):
        for parts in "auto", "auto:3":
            said = f"'{parts}' no longer exists; write --parts N, with the number that tarry plan --advise gives"
            for command in ["train"], ["serve"], ["simulate"], ["plan"], ["plan", "--advise"]:
                self.fail_with(2, f"tarry: --parts: {said}", *command, "--parts", parts)
            self.fail_with(2, f"tarry: --scheme: tarry:parts={parts}: parts: {said}", "simulate", "--scheme",
                           f"tarry:parts={parts}")
            self.write("job.ini", f"parts = {parts}\n")
            self.fail_with(2, f"tarry: job.ini:1: parts: {said}", "train", "--config", "job.ini")

    def test_shapes(self):
        said = "shape: no longer exists; leave it out, as every sum among workers is direct"
        for command in "train", "serve":
            self.fail_with(2, f"tarry: --{said}", command, "--sum", "everywhere", "--shape", "grid")
            self.fail_with(2, f"tarry: --{said}", command, "--shape=auto")
        self.write("job.ini", "shape = tree\n")
        self.fail_with(2, f"tarry: job.ini:1: {said}", "train", "--config", "job.ini")
        for way in "auto", "grid", "tree":
            said = f"'{way}' no longer exists; use everywhere, whose sums are direct"
            self.fail_with(2, f"tarry: --scheme: tarry:sum={way}: sum: {said}", "simulate", "--scheme", f"tarry:sum={way}")
            self.fail_with(2, f"tarry: --sum: {said}", "simulate", "--sum", way)

    def test_dense_rounds(self):
        said = "dense rounds no longer exist; use topk:F with a larger F, or int4 for all rounds"
        for form in "topk:0.01:30:3", "topk:0.01:30", "topk:0.01::3", "topk:0.01:":
            for command in "train", "serve", "simulate", "plan":
                self.fail_with(2, f"tarry: --compress: '{form}': {said}", command, "--compress", form)
            self.fail_with(2, f"tarry: --scheme: tarry:compress={form}: compress: '{form}': {said}", "simulate", "--scheme",
                           f"tarry:compress={form}")
        self.write("job.ini", "compress = topk:0.01:30:3\n")
        self.fail_with(2, f"tarry: job.ini:1: compress: 'topk:0.01:30:3': {said}", "train", "--config", "job.ini")

    def test_shared_memory(self):
        said = "no-share: no longer exists; leave it out, as a server shares no memory with workers"
        self.fail_with(2, f"tarry: --{said}", "serve", "--no-share")
        self.write("job.ini", "no-share = true\n")
        self.fail_with(2, f"tarry: job.ini:1: {said}", "serve", "--config", "job.ini")

    def test_commands(self):
        self.fail_with(2, f"tarry: relay: {RELAYS}", "relay")
        self.fail_with(2, f"tarry: relay: {RELAYS}", "relay", "--listen", "127.0.0.1:0")
        self.fail_with(2, "tarry: importance: unknown command (see tarry --help)", "importance")

    def test_options(self):
        for command, option, sentence in (
                (["serve"], "relay-grace", RELAYS),
                (["simulate"], "relay-batch", RELAYS),
                (["simulate"], "relay-deaths", RELAYS),
                (["simulate"], "relay-notice", RELAYS),
                (["simulate"], "relays", RELAYS)):
            self.fail_with(2, f"tarry: --{option}: {sentence}", *command, f"--{option}", "1")
            self.fail_with(2, f"tarry: --{option}: {sentence}", *command, f"--{option}=1")

    def test_faults(self):
        said = "tarry: --faults: no longer exists; it is a program for developers now, build/tests/worlds/tarry-worlds of a " \
               "build with tests"
        self.fail_with(2, said, "simulate", "--faults")
        self.fail_with(2, said, "simulate", "--faults", "--runs", "5", "--seed", "1")

    def test_usage(self):
        for command in "train", "plan", "keys":
            arguments = [command, "init"] if command == "keys" else [command]
            self.fail_with(2, "tarry: --usage: no longer exists; use --help", *arguments, "--usage")

    def test_limited_steps(self):
        said = "local-seconds: no longer exists; use fewer --local-steps, or leave out late chunks with --stop deadline:SECONDS"
        self.fail_with(2, f"tarry: --{said}", "train", "--local-steps", "5", "--local-seconds", "1")

    def test_csv(self):
        said = "no longer exists; docs/data-formats.md has a line that makes LIBSVM of CSV"
        for command in "train", "serve", "work":
            self.fail_with(2, "tarry: --format: no longer exists; leave it out, as the first bytes of a file tell its format",
                           command, "--format", "csv")
            self.fail_with(2, f"tarry: --label-column: {said}", command, "--label-column", "0")

    def test_intervals(self):
        self.fail_with(2, "tarry: --interval: no longer exists; pictures come as often as the server tells, twice a second",
                       "top", "--connect", "node0:1", "--insecure", "--interval", "1")

    def test_links(self):
        for option in "up-bandwidth", "slow-links", "log-time":
            self.fail_with(2, f"tarry: --{option}: no longer exists; tarry/sim.h has it for programs", "simulate", f"--{option}=1")
        self.fail_with(2, "tarry: --decode-threads: no longer exists; leave it out, as the number of cores decides", "serve",
                       "--decode-threads", "2")

    def test_pictures(self):
        said = "plot: no longer exists; draw the JSON of --report, as examples/plot.py does"
        for command in "train", "serve", "simulate", "privacy":
            self.fail_with(2, f"tarry: --{said}", command, "--plot", "run.svg")
        self.write("job.ini", "plot = run.svg\n")
        self.fail_with(2, f"tarry: job.ini:1: {said}", "train", "--config", "job.ini")

    def test_pilots(self):
        said = "no longer exists; compare tarry simulate --scheme tarry:compress=FORM and tarry train --compress FORM --report"
        for option in "pilot", "pilot-seeds":
            self.fail_with(2, f"tarry: --{option}: {said}", "plan", "--advise", f"--{option}=1")

    def test_keys(self):
        self.fail_with(2, f"tarry: --scheme: tarry:relays=8: relays: {RELAYS}", "simulate", "--scheme", "tarry:relays=8")
        self.write("job", "workers = 4\nrelay-deaths = 1\n")
        self.fail_with(2, f"tarry: job:2: relay-deaths: {RELAYS}", "simulate", "--config", "job")

    def test_values(self):
        self.fail_with(2, f"tarry: --connect: {ADDRESSES}", "work", "--connect", "one:7077,two:7077")
        for member in ("relay", "relay-3"):
            self.fail_with(2, f"tarry: keys: add: {member}: {RELAYS}", "keys", "add", "c", member)
        self.fail_with(2, "tarry: keys: add: 'early' is no member's name: server, worker-ID, worker or viewer", "keys", "add",
                       "c", "early")
