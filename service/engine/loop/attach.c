/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles Hello and registers the target. Pid and uid come from the kernel; everything else comes
 * from the guest and is sanitised here. */
#include "service/engine/heap/heap_state.h"

#include "service/engine/core/start_time.h"
#include "service/engine/loop/loop.h"
#include "service/engine/targets/watch.h"
#include "service/host/processes/cgroup.h"
#include "service/host/processes/process_text.h"
#include "service/process/foreign_memory.h"
#include "service/process/live_thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROTOCOL 1u

static void read_command(pid_t pid, struct sonde_buf *command) {
    char bytes[ENGINE_MAX_COMMAND];
    sonde_buf_append(command, bytes, foreign_memory_command(pid, bytes, sizeof bytes));
}

static void read_executable(pid_t pid, const char *told, char *out, size_t size) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)process_live_thread(pid));
    ssize_t len = readlink(link, path, sizeof path - 1);
    path[len > 0 ? len : 0] = 0;
    process_executable_name(out, size, len > 0 ? path : told);
}

static void read_container(struct engine_target *info) {
    char cgroup[CGROUP_BYTES];
    cgroup_read(info->pid, cgroup);
    cgroup_container(cgroup, info->container);
}

static void write_hex(char *out, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static struct target *find_uuid(struct engine *engine, const char *uuid) {
    for (struct target *target = engine->targets; target; target = target->next) {
        if (target->is_attached && strcmp(target->info.uuid, uuid) == 0)
            return target;
    }
    return NULL;
}

/* A guest that reconnects before its old connection was seen to end replaces that connection. A
 * different process with the same uuid gets a new uuid. */
static void make_unique(struct target *target) {
    struct target *other = find_uuid(target->engine, target->info.uuid);
    if (other && !other->host && other->pid == target->pid) {
        target_detach(other);
        return;
    }
    while (find_uuid(target->engine, target->info.uuid)) {
        uint64_t words[2] = {engine_random(target->engine), engine_random(target->engine)};
        write_hex(target->info.uuid, (const uint8_t *)words, sizeof words);
    }
}

static void describe(struct target *target, const sonde_guest_v1_Hello *hello) {
    struct engine_target *info = &target->info;
    struct sonde_buf command = {0};
    read_command(target->pid, &command);
    struct process_command words = {command.len > 0 ? command.data : "", command.len};
    info->pid = target->pid;
    info->uid = target->uid;
    target->space.is_guests = true;
    target->space.share.uid = target->names.share.uid = info->uid;
    info->start_unix_ns = start_time_unix_ns(process_start_ticks(info->pid));
    info->attached_unix_ns = now_unix_ns();
    read_container(info);
    read_executable(info->pid, hello->executable, info->executable, sizeof info->executable);
    snprintf(info->labels, sizeof info->labels, "%s", hello->labels);
    process_name_clean(info->guest_version, sizeof info->guest_version, hello->version);
    if (hello->name[0])
        process_name_clean(info->name, sizeof info->name, hello->name);
    else
        process_name(info->name, sizeof info->name, &words, info->executable, "");
    if (!info->name[0])
        snprintf(info->name, sizeof info->name, "pid-%d", (int)info->pid);
    write_hex(info->uuid, hello->uuid, sizeof hello->uuid);
    while (command.len > 0 && command.data[command.len - 1] == 0)
        command.len--;
    target->command = sonde_buf_take(&command, &target->command_len);
    sonde_buf_finish(&command);
}

/* Why the guest is refused; NULL = it is accepted. */
static const char *objection(const struct target *target, const sonde_guest_v1_Hello *hello) {
    uid_t self = geteuid();
    if (hello->protocol != PROTOCOL)
        return "this sonded speaks another protocol version; install guest and sonded together";
    if (target->pid <= 0)
        return "the process is not visible to sonded (another pid namespace)";
    if (!process_identity_holds(&target->process))
        return "the process is not the one that connected";
    if (self != 0 && target->uid != 0 && target->uid != self)
        return "the process belongs to another user than sonded";
    if (target->engine->target_count >= ENGINE_MAX_TARGETS)
        return "sonded serves its limit of 4096 processes";
    return NULL;
}

#define CLOCK_NOISE_NS 10000000ll /* between two readings of two clocks, which takes time */

/* CLOCK_REALTIME is the same in all time namespaces. */
static int64_t clock_ahead_ns(const sonde_guest_v1_Hello *hello) {
    int64_t ours = now_unix_ns() - (int64_t)now_monotonic_ns();
    int64_t ahead = (int64_t)((uint64_t)ours - (uint64_t)hello->real_minus_monotonic_ns);
    bool is_noise = ahead > -CLOCK_NOISE_NS && ahead < CLOCK_NOISE_NS;
    return hello->real_minus_monotonic_ns == 0 || is_noise ? 0 : ahead;
}

bool target_attach(struct target *target, const sonde_guest_v1_Hello *hello) {
    const char *reason = objection(target, hello);
    if (reason) {
        link_refuse(target, reason);
        return false;
    }
    struct engine *engine = target->engine;
    describe(target, hello);
    target->guest->clock_ahead_ns = clock_ahead_ns(hello);
    make_unique(target);
    lock_take(&engine->targets_lock);
    target->is_attached = true;
    engine->target_count++;
    lock_drop(&engine->targets_lock);
    target->guest->has_hello = true;
    frames_to_guest welcome = sonde_guest_v1_ToGuest_init_zero;
    welcome.which_message = sonde_guest_v1_ToGuest_welcome_tag;
    welcome.message.welcome.protocol = PROTOCOL;
    link_send(target, &welcome, -1);
    watch_notify(engine, true, &target->info);
    heap_attach(target);
    return true;
}
