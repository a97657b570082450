/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/cli.h"
#include "clients/cli/verbs/fleet/fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STALE_S       60           /* without a window from a host that records processes */
#define CLOCK_LIMIT_S 5            /* by which clocks may differ without a remark */
#define KEPT_LIMIT    (4ull << 20) /* a host that keeps more is behind */

static bool is_registered(const Sonde__V1__FleetHost *host) {
    return strcmp(host->source, "registered") == 0;
}

static void print_connection(const Sonde__V1__FleetHost *host) {
    char age[24];
    cli_put_name(stdout, host->name);
    fputs(" (", stdout);
    cli_put_name(stdout, host->address);
    if (is_registered(host)) {
        fputs(", which registered itself) ", stdout);
    } else {
        fputs(", from ", stdout);
        cli_put_name(stdout, host->source);
        fputs(") ", stdout);
    }
    if (host->state != SONDE__V1__FLEET_HOST_STATE__FLEET_HOST_CONNECTED) {
        printf("is not connected: it is %s.\n", fleet_state_name(host->state));
        return;
    }
    cli_age(age, host->connected_unix_ns);
    printf("has been connected for %s and records %u process%s.\n", age, host->targets,
           host->targets == 1 ? "" : "es");
}

/* What the text of an error means for the reader. The first row that fits counts. */
static const char *advice(const char *trouble) {
    static const struct {
        const char *words, *advice;
    } table[] = {
        {"token", "Check --hosts-token-file against the host's --token-file; the scope read is "
                  "enough."},
        {"certificate", "Check --hosts-ca, and that the host's certificate has its name (tls= in "
                        "the list of hosts)."},
        {"does not collect", "Start its sonded without --no-collect, with a data directory that it "
                             "can write."},
        {"cannot be reached", "Is sonded running there, with --grpc on that address, and does a "
                              "firewall let it through? A host behind a NAT can call the "
                              "controller: sonded --register."},
        {"another call", "Another controller uses the same session there. Give each its own "
                         "--session, or share the hosts."},
        {"spool", "The controller's disk is full or its History is away: see `sonde fleet "
                  "status`."},
    };
    for (size_t i = 0; i < COUNT_OF(table); i++)
        if (strstr(trouble, table[i].words))
            return table[i].advice;
    return NULL;
}

static void print_trouble(const Sonde__V1__FleetHost *host) {
    if (!host->trouble[0])
        return;
    fputs("The reason: ", stdout);
    cli_put_text(stdout, host->trouble);
    puts(strchr(".?!", host->trouble[strlen(host->trouble) - 1]) ? "" : ".");
    if (advice(host->trouble))
        puts(advice(host->trouble));
}

static void print_next_try(const Sonde__V1__FleetHost *host, const Sonde__V1__Fleet *fleet) {
    if (host->state == SONDE__V1__FLEET_HOST_STATE__FLEET_HOST_CONNECTED)
        return;
    if (host->failures > 1)
        printf("%u tries in a row have failed. ", host->failures);
    if (is_registered(host))
        puts("It will call again by itself, within a minute if its sonded is running.");
    else if (fleet->is_breaker_open)
        puts("Too many hosts fail at the moment, so that no others are tried for some time.");
    else if (host->next_try_ns > 0)
        printf("The next try is in %" PRId64 " s.\n", host->next_try_ns / 1000000000 + 1);
    else
        puts("It is being tried now.");
}

static void print_windows(const Sonde__V1__FleetHost *host, const Sonde__V1__Fleet *fleet) {
    char age[24] = "";
    if (host->last_window_unix_ns)
        cli_age(age, host->last_window_unix_ns);
    printf("It has sent %" PRIu64 " windows%s%s%s.\n", host->windows,
           age[0] ? ", the last one " : "", age, age[0] ? " ago" : "");
    bool is_stale = (int64_t)time(NULL) - host->last_window_unix_ns / 1000000000 > STALE_S;
    if (fleet->is_paused)
        puts("All recording is paused: `sonde fleet resume` continues it.");
    else if (host->state == SONDE__V1__FLEET_HOST_STATE__FLEET_HOST_CONNECTED && host->targets == 0)
        puts(
            host->refusal[0]
                ? "No process there is recorded: servers there need the guest (`sonde "
                  "run`, or LD_PRELOAD) and a budget that is not 0."
                : "No process there is recorded: the budgets of all are 0, or the controller wants "
                  "only processes that have the guest, and none has it.");
    else if (host->targets > 0 && is_stale)
        puts("Its processes have used no CPU time lately, or they were not drawn (see the budgets "
             "in `sonde fleet status`).");
}

static void print_refusal(const Sonde__V1__FleetHost *host) {
    if (!host->refusal[0])
        return;
    fputs("It records only processes that have the guest: ", stdout);
    cli_put_text(stdout, host->refusal);
    puts(".");
}

static void print_state(const Sonde__V1__FleetHost *host) {
    int64_t off_s = host->clock_offset_ns / 1000000000;
    if (host->n_lost_windows) {
        fputs("It has lost windows: ", stdout);
        fleet_print_losses(host->lost_windows, host->n_lost_windows);
        puts(".");
    }
    if (host->kept_bytes > KEPT_LIMIT)
        printf("%.1f MiB wait on it: the controller or the network is slower than the host.\n",
               (double)host->kept_bytes / 1048576);
    if (host->merged_windows)
        printf("%" PRIu64 " of its windows were merged into longer ones, because they had to "
               "wait.\n",
               host->merged_windows);
    if (llabs(off_s) >= CLOCK_LIMIT_S)
        printf("Its clock is %" PRId64
               " s %s the controller's; its windows are at its own times.\n",
               (int64_t)llabs(off_s), off_s > 0 ? "ahead of" : "behind");
    if (host->version[0]) {
        fputs("It runs version ", stdout);
        cli_put_name(stdout, host->version);
        puts(".");
    }
    if (host->host[0] && strcmp(host->host, host->name) != 0) {
        fputs("It calls itself ", stdout);
        cli_put_name(stdout, host->host);
        puts(
            ", and so do its windows: use that name in `sonde history --selector \"host = ...\"`.");
    }
}

void fleet_print_why(const Sonde__V1__FleetHost *host, const Sonde__V1__Fleet *fleet) {
    if (host->state == SONDE__V1__FLEET_HOST_STATE__FLEET_HOST_ELSEWHERE) {
        cli_put_name(stdout, host->name);
        fputs(host->controller[0] ? " belongs to controller " : " waits until the group is known",
              stdout);
        cli_put_name(stdout, host->controller);
        puts(host->controller[0] ? ": ask that one." : ": History must answer first.");
        return;
    }
    print_connection(host);
    print_trouble(host);
    print_next_try(host, fleet);
    print_windows(host, fleet);
    print_refusal(host);
    print_state(host);
}
