/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/refusal.h"

#include "service/host/sampler/capabilities.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define LOCKDOWN "/sys/kernel/security/lockdown" /* "none integrity [confidentiality]" */
#define BTF      "/sys/kernel/btf/vmlinux"

int refusal_setting(const char *name, int otherwise) {
    char path[96];
    int value = otherwise;
    snprintf(path, sizeof path, "/proc/sys/kernel/%s", name);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%d", &value) != 1)
        value = otherwise;
    if (file)
        fclose(file);
    return value;
}

bool refusal_is_paranoid(int *level) {
    *level = refusal_setting("perf_event_paranoid", 2);
    return *level > 2;
}

bool refusal_kernel_at_least(int major, int minor) {
    struct utsname name;
    int own_major = 0, own_minor = 0;
    return uname(&name) == 0 && sscanf(name.release, "%d.%d", &own_major, &own_minor) == 2 &&
           (own_major > major || (own_major == major && own_minor >= minor));
}

bool refusal_is_locked_down(void) {
    char text[96] = "";
    FILE *file = fopen(LOCKDOWN, "re");
    bool is_read = file && fgets(text, sizeof text, file);
    if (file)
        fclose(file);
    return is_read && strstr(text, "[confidentiality]");
}

void refusal_text(int error, uint64_t capabilities, char text[REFUSAL_BYTES]) {
    char names[CAPABILITIES_TEXT];
    struct utsname kernel;
    const char *said = strerrordesc_np(error);
    capabilities_text(capabilities, names);
    if (uname(&kernel) != 0)
        kernel.release[0] = 0;
    snprintf(text, REFUSAL_BYTES, "%s (capabilities: %s; Linux %.60s)",
             said ? said : "unknown error", names, kernel.release);
}

static bool may_load(uint64_t capabilities) {
    const uint64_t both = 1ull << CAP_BPF | 1ull << CAP_PERFMON;
    return (capabilities & both) == both || (capabilities & 1ull << CAP_SYS_ADMIN);
}

static void add(char text[REFUSAL_BYTES], const char *more) {
    size_t len = strlen(text);
    snprintf(text + len, REFUSAL_BYTES - len, "%s", more);
}

void refusal_of_bpf(int error, uint64_t capabilities, bool *is_final, char text[REFUSAL_BYTES]) {
    struct utsname kernel;
    *is_final = true;
    if (!refusal_kernel_at_least(5, 15) && uname(&kernel) == 0)
        snprintf(text, REFUSAL_BYTES, "needs Linux 5.15; this is Linux %.60s", kernel.release);
    else if (access(BTF, F_OK) != 0)
        snprintf(text, REFUSAL_BYTES, "needs a kernel with CONFIG_DEBUG_INFO_BTF (%s)", BTF);
    else if (refusal_is_locked_down())
        snprintf(text, REFUSAL_BYTES, "is refused: the kernel is in lockdown (confidentiality)");
    else {
        *is_final = false;
        refusal_text(error, capabilities, text);
        if ((error == EPERM || error == EACCES) && !may_load(capabilities))
            add(text, ": it takes CAP_BPF and CAP_PERFMON");
    }
}
