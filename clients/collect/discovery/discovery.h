/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the hosts are: each source gives a list, and the lists together are the fleet.
 *
 *     FILE                    watched: one host per line, ADDRESS [name=NAME] [tls-name=NAME]
 *                             [KEY=VALUE ...], # comments; or, if it is JSON, as http
 *     dns:NAME:PORT           all A and AAAA records, every 30 s
 *     http://..., https://... Prometheus' HTTP service discovery, every 30 s:
 *                             [{"targets": ["HOST:PORT", ...], "labels": {"KEY": "VALUE"}}]
 *
 * A source that fails keeps its last list, and says why. A list with a mistake is refused as a
 * whole, with line or byte. An empty file is a mistake, because writers empty files before they
 * fill them. ADDRESS is HOST:PORT or unix:PATH; a missing port is never guessed: it is a mistake.
 * At most DISCOVERY_MAX_HOSTS hosts; those of later sources are left out, and their source says how
 * many. Hosts with the same address count once: the first source's. Names are distinct: a host
 * whose name an earlier source uses for another host has its address as its name. The bounds of
 * names and labels are in host_list.h, those of files and servers in source.h.
 *
 * A changed file is read when its writer has closed it or when another file is renamed to it, and
 * other changes (links, network file systems) when they are 0.5 to 0.75 s old. A host that was
 * found by DNS has that DNS name as its tls_name.
 *
 * One thread looks at files, and one for each server asks it, so that a slow server delays nothing
 * else. on_change runs on the first of them with the whole new list, only if it differs. Thread
 * safety: one thread starts and stops, but not in on_change. */
#ifndef SONDE_CLIENTS_COLLECT_DISCOVERY_DISCOVERY_H
#define SONDE_CLIENTS_COLLECT_DISCOVERY_DISCOVERY_H

#include "api/error.h"

#include <stddef.h>

#define DISCOVERY_MAX_HOSTS   100000
#define DISCOVERY_MAX_SOURCES 64

struct discovered_label {
    const char *name, *value;
};

struct discovered_host {
    const char *name;     /* NAME, else the address */
    const char *address;  /* HOST:PORT or unix:PATH */
    const char *tls_name; /* what its certificate must name; NULL = the address's host */
    const char *origin;   /* "file hosts.txt", "dns collect.example:20180", "http https://sd/x" */
    const struct discovered_label *labels; /* added to the host's windows; by name */
    size_t label_count;
};

struct discovered_hosts {
    struct discovered_host *hosts; /* by name */
    size_t count;
};

/* A source, and how it is. */
struct discovery_source {
    char name[320];    /* as in origin */
    size_t hosts;      /* of its last good list */
    int64_t unix_ns;   /* when it was read; 0 = never */
    char trouble[256]; /* why it could not be read since; "" = all is well */
};

struct discovery;

/* sources: as above. Reads each once before it returns, and waits at most 15 s for servers; one
 * that fails is tried again, except for a file that is missing or wrong at the start:
 * SONDE_INVALID_ARGUMENT, SONDE_IO, SONDE_TOO_LARGE. The list is only valid during on_change, which
 * runs for the first time before this returns. log may be NULL. */
SONDE_MUST_USE sonde_err discovery_start(const char *const *sources, size_t count,
                                         void (*on_change)(void *context,
                                                           const struct discovered_hosts *hosts),
                                         void *context, void (*log)(const char *line),
                                         struct discovery **discovery, struct sonde_diag *diag);
/* Fills at most `capacity` sources; returns how many there are. Any thread. */
size_t discovery_sources(struct discovery *discovery, struct discovery_source *sources,
                         size_t capacity);
void discovery_stop(struct discovery *discovery); /* NULL is fine; takes at most some seconds */

#endif
