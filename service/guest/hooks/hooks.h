/* SPDX-License-Identifier: Apache-2.0
 *
 * The libc functions that libsonde.so replaces, all of them listed in EXPORTS. While nobody
 * profiles, a replacement costs one load and one branch.
 *
 *     pthread_create       a thread needs its clock from its first instruction on: a thread that
 *                          lives 1 ms would be missed by a scan (thread_hooks.c)
 *     sigaction, signal,   the application sees its own handlers although the kernel has ours
 *     __sysv_signal        (signal_hooks.c, signal/chain.h)
 *     fork, daemon         a child that does not exec is a target of its own. Its control thread
 *                          can be created only after every atfork handler has run, since those
 *                          release the allocator's locks (process_hooks.c)
 *     chroot               /proc cannot be reached afterwards (process_hooks.c)
 *     dlclose              the maps must be read before another library gets the addresses
 *                          (library_hooks.c)
 *     exec...              no tick may reach the new program (exec_hooks.c)
 *     close...             programs that close all descriptors must not close ours (close_hooks.c)
 *     setuid..., capset    the control thread must not keep privileges that the application gives
 *                          up (id_hooks.c)
 *     sigaltstack, prctl,  a tick may write below a small signal stack, and a seccomp filter may
 *     syscall              kill for what it calls (hold_hooks.c)
 *
 * dlopen is not replaced, because it looks at its caller (RUNPATH, $ORIGIN). */
#ifndef SONDE_SERVICE_GUEST_HOOKS_HOOKS_H
#define SONDE_SERVICE_GUEST_HOOKS_HOOKS_H

#define HOOK __attribute__((visibility("default")))

#endif
