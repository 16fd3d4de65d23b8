/* SPDX-License-Identifier: Apache-2.0 */
#include "mortal.h"

#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

extern char **environ;

const char *const mortal_place_names[MORTAL_PLACES] = {
    [MORTAL_NOWHERE] = "nowhere",
    [MORTAL_PREPARES] = "it prepares",
    [MORTAL_COMPUTES] = "it computes",
    [MORTAL_ENCODED] = "it begins a sum",
    [MORTAL_PART] = "a coded part comes in",
    [MORTAL_SUM] = "a share of the sum comes in",
    [MORTAL_SUMMED] = "it has the sum and nobody knows",
    [MORTAL_HELD] = "between HELD and COMMIT",
    [MORTAL_STEPS_NOW] = "it is about to step",
    [MORTAL_STEPPED] = "it has stepped and nobody knows",
    [MORTAL_FETCHES] = "it fetches a sum",
    [MORTAL_LENDS] = "it is asked for a sum",
    [MORTAL_LOADS] = "a state comes in",
    [MORTAL_LOADED] = "it takes a state over",
    [MORTAL_SAVES] = "its state is copied for another",
    [MORTAL_SENDS] = "it sends a sum or a state",
};

bool mortal_is_licensed(mortal_area *area)
{
    return area->licences > 0 && atomic_fetch_sub(&area->licences, 1) > 0;
}

void mortals_begin(mortals *its, uint32_t workers, uint32_t chunks, uint64_t dimension)
{
    *its = (mortals){.file = memfd_create("mortals", 0)};
    assert_true(workers <= MORTAL_MOST && its->file >= 0);
    assert_int_equal(ftruncate(its->file, sizeof(mortal_area)), 0);
    its->area = mmap(NULL, sizeof(mortal_area), PROT_READ | PROT_WRITE, MAP_SHARED, its->file, 0);
    assert_ptr_not_equal(its->area, MAP_FAILED);
    its->area->workers = workers;
    its->area->chunks = chunks;
    its->area->dimension = dimension;
}

void mortals_check(const mortals *its)
{
    if (its->area->complained)
        fail_msg("%s", its->area->complaint);
}

void mortals_end(mortals *its)
{
    for (uint32_t worker = 0; worker < its->area->workers; worker++) {
        int status;
        if (its->pids[worker] == 0)
            continue;
        assert_int_equal(waitpid(its->pids[worker], &status, 0), its->pids[worker]);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("worker %u ended with status %#x", worker, (unsigned)status);
    }
    mortals_check(its);
    munmap(its->area, sizeof(mortal_area));
    close(its->file);
}

void mortals_spawn(mortals *its, uint32_t worker)
{
    char file[16], id[16];
    char *const arguments[] = {(char *)"mortal", file, id, NULL};
    mortal_slot *slot = &its->area->slots[worker];
    snprintf(file, sizeof(file), "%d", its->file);
    snprintf(id, sizeof(id), "%u", worker);
    slot->step = 0;
    slot->struck = MORTAL_NOWHERE;
    its->stopped[worker] = false;
    assert_int_equal(
        posix_spawn(&its->pids[worker], "/proc/self/exe", NULL, NULL, arguments, environ), 0);
}

void mortals_arm(mortals *its, uint32_t worker, const mortal_plan *plan)
{
    mortal_slot *slot = &its->area->slots[worker];
    slot->struck = MORTAL_NOWHERE;
    slot->passes = plan->passes;
    slot->fate = plan->fate;
    slot->next = plan->next;
    slot->draw = plan->draw;
    slot->place = plan->place;
}

void mortals_disarm(mortals *its, uint32_t worker)
{
    its->area->slots[worker].place = MORTAL_NOWHERE;
}

void mortals_log(mortals *its)
{
    for (uint32_t worker = 0; worker < its->area->workers; worker++) {
        mortal_slot *slot = &its->area->slots[worker];
        if (slot->place != MORTAL_HELD || its->pids[worker] == 0 || --slot->passes > 0)
            continue;
        slot->place = MORTAL_NOWHERE;
        if (!mortal_is_licensed(its->area))
            continue;
        slot->struck = MORTAL_HELD;
        kill(its->pids[worker], slot->fate == MORTAL_STOPS ? SIGSTOP : SIGKILL);
    }
}

void mortals_forget(mortals *its, uint64_t step)
{
    its->area->steps[step].sum = its->area->steps[step].state = 0;
}

/* Takes what the system has to say of it. */
static void look(mortals *its, uint32_t worker, int options)
{
    int status;
    if (its->pids[worker] == 0 || waitpid(its->pids[worker], &status, options) <= 0)
        return;
    if (WIFSTOPPED(status)) {
        its->stopped[worker] = true;
        return;
    }
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail_msg("worker %u ended with status %#x", worker, (unsigned)status);
    its->pids[worker] = 0;
    its->stopped[worker] = false;
}

bool mortals_is_dead(mortals *its, uint32_t worker)
{
    look(its, worker, WNOHANG | WUNTRACED);
    return its->pids[worker] == 0;
}

bool mortals_is_stopped(mortals *its, uint32_t worker)
{
    look(its, worker, WNOHANG | WUNTRACED);
    return its->stopped[worker];
}

void mortals_continue(mortals *its, uint32_t worker)
{
    its->stopped[worker] = false;
    kill(its->pids[worker], SIGCONT);
}

void mortals_kill(mortals *its, uint32_t worker)
{
    if (its->pids[worker] == 0)
        return;
    kill(its->pids[worker], SIGKILL);
    look(its, worker, 0);
}

uint32_t mortals_alive(const mortals *its)
{
    uint32_t count = 0;
    for (uint32_t worker = 0; worker < its->area->workers; worker++)
        count += its->pids[worker] != 0;
    return count;
}
