/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/cli.h"
#include "clients/cli/verbs/fleet/fleet.h"

#include <inttypes.h>
#include <stdio.h>

#define MIB 1048576.0

const char *fleet_state_name(Sonde__V1__FleetHostState state) {
    static const char *const names[] = {"waiting", "connecting", "connected", "refused",
                                        "elsewhere"};
    return (unsigned)state < COUNT_OF(names) ? names[state] : "unknown";
}

void fleet_print_losses(Sonde__V1__Drop *const *losses, size_t count) {
    for (size_t i = 0; i < count; i++) {
        printf("%s%" PRIu64 " ", i ? ", " : "", losses[i]->count);
        cli_put_name(stdout, losses[i]->cause);
    }
}

/* ---- Status ---- */

static uint64_t sum(Sonde__V1__Drop *const *losses, size_t count) {
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++)
        all += losses[i]->count;
    return all;
}

static void print_text(const char *head, const char *text) {
    printf("%-11s", head);
    cli_put_text(stdout, text);
    putchar('\n');
}

static void print_hosts_line(const Sonde__V1__Fleet *fleet) {
    uint32_t all = fleet->hosts_connected + fleet->hosts_connecting + fleet->hosts_waiting +
                   fleet->hosts_refused;
    printf("hosts      %u of %u are connected", fleet->hosts_connected, all);
    if (fleet->hosts_connecting)
        printf(", %u connecting", fleet->hosts_connecting);
    if (fleet->hosts_waiting)
        printf(", %u waiting", fleet->hosts_waiting);
    if (fleet->hosts_refused)
        printf(", %u refuse", fleet->hosts_refused);
    if (fleet->hosts_elsewhere)
        printf("; other controllers have %u more", fleet->hosts_elsewhere);
    printf("\nprocesses  %" PRIu64 " are recorded\n", fleet->targets);
    for (size_t i = 0; i < fleet->n_members; i++) {
        fputs(i ? " " : "group      ", stdout);
        cli_put_name(stdout, fleet->members[i]);
    }
    if (fleet->n_members)
        putchar('\n');
}

static void print_windows(const Sonde__V1__Fleet *fleet) {
    uint64_t lost = sum(fleet->lost_windows, fleet->n_lost_windows);
    printf("windows    %" PRIu64 " received, %" PRIu64 " stored, %" PRIu64 " twice, %" PRIu64
           " lost",
           fleet->windows, fleet->stored_windows, fleet->duplicate_windows, lost);
    if (lost) {
        fputs(" (", stdout);
        fleet_print_losses(fleet->lost_windows, fleet->n_lost_windows);
        putchar(')');
    }
    printf("\nspool      %.1f of %.0f MiB, %" PRId64 " s behind\n",
           (double)fleet->spool_bytes / MIB, (double)fleet->spool_limit_bytes / MIB,
           fleet->lag_ns / 1000000000);
}

static void print_budgets(const Sonde__V1__Fleet *fleet) {
    if (fleet->n_budgets)
        printf("\n%14s %14s %12s %10s  %s\n", "BUDGET/H", "SAMPLES/H", "PROBABILITY", "PROCESSES",
               "SERVICE");
    for (size_t i = 0; i < fleet->n_budgets; i++) {
        const Sonde__V1__FleetBudget *budget = fleet->budgets[i];
        printf("%14" PRIu64 " %14" PRIu64 " %12.4f %10u  ", budget->samples_per_hour,
               budget->recent_samples_per_hour, budget->probability, budget->processes);
        cli_put_name(stdout, budget->service);
        putchar('\n');
    }
}

void fleet_print_status(const Sonde__V1__Fleet *fleet) {
    char up[24];
    cli_age(up, fleet->start_unix_ns);
    fputs("controller ", stdout);
    cli_put_name(stdout, fleet->controller);
    fputs(", version ", stdout);
    cli_put_name(stdout, fleet->version);
    printf(", running for %s\n", up);
    print_hosts_line(fleet);
    print_windows(fleet);
    if (fleet->is_paused)
        print_text("paused", fleet->pause_reason[0] ? fleet->pause_reason
                                                    : "no reason was given; `sonde fleet resume`");
    if (fleet->is_breaker_open)
        print_text("breaker", "too many hosts fail, so that no others are tried for some time");
    if (fleet->trouble[0])
        print_text("trouble", fleet->trouble);
    print_budgets(fleet);
}

/* ---- Hosts ---- */

static void print_host(const Sonde__V1__FleetHost *host) {
    char last[24] = "-";
    if (host->last_window_unix_ns)
        cli_age(last, host->last_window_unix_ns);
    printf("%-10s %9u %10" PRIu64 " %8s  ", fleet_state_name(host->state), host->targets,
           host->windows, last);
    cli_put_name(stdout, host->name);
    fputs(" (", stdout);
    cli_put_name(stdout, host->address);
    putchar(')');
    if (host->state == SONDE__V1__FLEET_HOST_STATE__FLEET_HOST_ELSEWHERE) {
        fputs(": see controller ", stdout);
        cli_put_name(stdout, host->controller);
    }
    if (host->trouble[0]) {
        fputs(": ", stdout);
        cli_put_text(stdout, host->trouble);
    }
    putchar('\n');
}

void fleet_print_hosts(const Sonde__V1__ListHostsResponse *list) {
    if (list->n_hosts == 0)
        puts("no hosts");
    else
        printf("%-10s %9s %10s %8s  %s\n", "STATE", "PROCESSES", "WINDOWS", "LAST", "HOST");
    for (size_t i = 0; i < list->n_hosts; i++)
        print_host(list->hosts[i]);
}
