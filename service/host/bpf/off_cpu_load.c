/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/bpf/off_cpu_load.h"

#include "service/host/bpf/off_cpu_shared.h"
/* The skeleton uses the types of the header above. */
#include "service/host/bpf/off_cpu.skel.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

static bool is_power_of_two_in(uint32_t value, uint32_t least, uint32_t most) {
    return value >= least && value <= most && (value & (value - 1)) == 0;
}

static bool is_valid(const struct off_cpu_spec *spec) {
    return is_power_of_two_in(spec->slot_count, 64, OFF_CPU_SLOTS) &&
           is_power_of_two_in(spec->ring_bytes, 1u << 16, 1u << 26) &&
           spec->stack_bytes >= OFF_CPU_MIN_STACK && spec->stack_bytes <= OFF_CPU_MAX_STACK &&
           spec->stack_bytes % 8 == 0;
}

static int configure(struct off_cpu_bpf *program, const struct off_cpu_spec *spec) {
    uint32_t slot_bytes = sizeof(struct off_cpu_slot) + spec->stack_bytes;
    program->rodata->stack_bytes = spec->stack_bytes;
    program->rodata->slot_count = spec->slot_count;
    program->rodata->namespace_device = spec->namespace_device;
    program->rodata->namespace_inode = spec->namespace_inode;
    int result = bpf_map__set_value_size(program->maps.slots, slot_bytes);
    if (result == 0)
        result = bpf_map__set_max_entries(program->maps.slots, spec->slot_count);
    if (result == 0)
        result = bpf_map__set_max_entries(program->maps.ring, spec->ring_bytes);
    return result;
}

static int duplicate(const int from[OFF_CPU_FDS], int fds[OFF_CPU_FDS]) {
    for (int i = 0; i < OFF_CPU_FDS; i++) {
        fds[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 3);
        if (fds[i] >= 0)
            continue;
        int error = errno;
        while (i-- > 0)
            close(fds[i]);
        return -error;
    }
    return 0;
}

static int pass(struct off_cpu_bpf *program, int fds[OFF_CPU_FDS]) {
    const int from[OFF_CPU_FDS] = {
        [OFF_CPU_CONTROL] = bpf_map__fd(program->maps.bss),
        [OFF_CPU_SLOT_ARRAY] = bpf_map__fd(program->maps.slots),
        [OFF_CPU_RING] = bpf_map__fd(program->maps.ring),
        [OFF_CPU_LINK] = bpf_link__fd(program->links.on_switch),
    };
    return duplicate(from, fds);
}

static int stay_silent(enum libbpf_print_level level, const char *format, va_list arguments) {
    return 0;
}

/* Loads the program into the kernel; *program is to be destroyed in any case. */
static int load(const struct off_cpu_spec *spec, struct off_cpu_bpf **program) {
    libbpf_set_print(stay_silent);
    *program = off_cpu_bpf__open();
    if (!*program)
        return -errno;
    int result = configure(*program, spec);
    return result ? result : off_cpu_bpf__load(*program);
}

int off_cpu_load(const struct off_cpu_spec *spec, int fds[OFF_CPU_FDS]) {
    struct off_cpu_bpf *program;
    if (!is_valid(spec))
        return -EINVAL;
    int result = load(spec, &program);
    if (result == 0)
        result = off_cpu_bpf__attach(program);
    if (result == 0)
        result = pass(program, fds);
    off_cpu_bpf__destroy(program);
    return result;
}

int off_cpu_try(void) {
    static const struct off_cpu_spec least = {
        .slot_count = 64, .stack_bytes = OFF_CPU_MIN_STACK, .ring_bytes = 1u << 16};
    struct off_cpu_bpf *program;
    int result = load(&least, &program);
    off_cpu_bpf__destroy(program);
    return result;
}
