// SPDX-License-Identifier: Apache-2.0
//! A Rust program with two threads, which run generic code, a trait object and a closure. Built optimised, without frame pointers.
use std::hint::black_box;
use std::io::Write;

#[inline(never)]
fn checksum(seed: u64, rounds: u32) -> u64 {
    let mut state = seed;
    for round in 0..rounds {
        state = black_box(state.wrapping_mul(6364136223846793005).wrapping_add(round as u64));
    }
    state
}

trait Stage {
    fn apply(&self, seed: u64) -> u64;
}

struct Scan<T> {
    weight: T,
}

impl Stage for Scan<u32> {
    #[inline(never)]
    fn apply(&self, seed: u64) -> u64 {
        black_box(checksum(seed, 70_000 + self.weight)).wrapping_add(1)
    }
}

#[inline(never)]
fn pipeline(stages: &[Box<dyn Stage>], seed: u64) -> u64 {
    let mut state = seed;
    for stage in stages {
        state = black_box(stage.apply(state));
    }
    state
}

fn main() {
    let workers: Vec<_> = (0..2u64)
        .map(|number| {
            std::thread::Builder::new()
                .name(format!("scan-{number}"))
                .spawn(move || {
                    let stages: Vec<Box<dyn Stage>> = vec![Box::new(Scan { weight: 1u32 })];
                    let mut state = number;
                    loop {
                        state = black_box(pipeline(&stages, state));
                    }
                })
                .unwrap()
        })
        .collect();
    println!("ready");
    std::io::stdout().flush().unwrap();
    for worker in workers {
        worker.join().unwrap();
    }
}
