# SPDX-License-Identifier: Apache-2.0
# A small library with all that the reader looks at: functions, a label, an IFUNC, calls through the PLT.
    .text
    .globl exported
    .type exported, @function
exported:
    call outside@plt
    call hidden
    ret
    .size exported, .-exported
    .type hidden, @function
hidden:
    nop
label:
    nop
    ret
    .size hidden, .-hidden
    .globl picked
    .type picked, @gnu_indirect_function
picked:
    lea hidden(%rip), %rax
    ret
    .size picked, .-picked
    .globl unsized
unsized:
    jmp *again@GOTPCREL(%rip)
