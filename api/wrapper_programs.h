/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that only start another one. The guest stays away from them, and `sonde run` looks for
 * the program behind them. ALWAYS(name): it does nothing else. SHELL(name): it may also do the work
 * itself. */
#ifndef SONDE_API_WRAPPER_PROGRAMS_H
#define SONDE_API_WRAPPER_PROGRAMS_H

#define WRAPPER_PROGRAMS(ALWAYS, SHELL) \
    ALWAYS("timeout")                   \
    ALWAYS("env")                       \
    ALWAYS("nice")                      \
    ALWAYS("nohup")                     \
    ALWAYS("setsid")                    \
    ALWAYS("stdbuf")                    \
    ALWAYS("time")                      \
    ALWAYS("chrt")                      \
    ALWAYS("ionice")                    \
    ALWAYS("taskset")                   \
    ALWAYS("numactl")                   \
    ALWAYS("prlimit")                   \
    ALWAYS("setpriv")                   \
    ALWAYS("unshare")                   \
    ALWAYS("nsenter")                   \
    ALWAYS("tini")                      \
    ALWAYS("dumb-init")                 \
    SHELL("sh")                         \
    SHELL("dash")                       \
    SHELL("bash")                       \
    SHELL("ash")                        \
    SHELL("ksh")                        \
    SHELL("mksh")                       \
    SHELL("zsh")                        \
    SHELL("fish")

#endif
