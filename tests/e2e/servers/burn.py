# SPDX-License-Identifier: Apache-2.0
"""A Python program that computes in two threads."""
import threading


def inner(number):
    total = 0
    for value in range(20000):
        total += value * number % 7
    return total


def outer():
    while True:
        inner(3)


threading.Thread(target=outer, daemon=True).start()
print("ready", flush=True)
outer()
