# SPDX-License-Identifier: Apache-2.0
# For arm64: functions, mapping symbols, a veneer, an IFUNC, calls through the PLT.
    .text
    .globl exported
    .type exported, %function
exported:
    bl outside
    bl hidden
    ret
    .size exported, .-exported
    .type hidden, %function
hidden:
    nop
    ret
    .size hidden, .-hidden
    .type __hidden_veneer, %function
__hidden_veneer:
    adrp x16, hidden
    add x16, x16, :lo12:hidden
    br x16
    .size __hidden_veneer, .-__hidden_veneer
    .word 1
    .globl picked
    .type picked, %gnu_indirect_function
picked:
    adr x0, hidden
    ret
    .size picked, .-picked
    .globl unsized
unsized:
    adrp x0, :got:again
    ldr x0, [x0, :got_lo12:again]
    br x0
    .ifdef BTI
    .section .note.gnu.property, "a"
    .p2align 3
    .word 4, 16, 5
    .asciz "GNU"
    .word 0xc0000000, 4, 1, 0
    .endif
