// SPDX-License-Identifier: Apache-2.0
//! Threads that sort with closures, use maps, format, and call through trait objects.
use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;

trait Stage {
    fn apply(&self, words: &mut Vec<String>) -> usize;
}

struct Sort;
struct Count;

impl Stage for Sort {
    fn apply(&self, words: &mut Vec<String>) -> usize {
        words.sort_by(|a, b| b.cmp(a));
        words[0].len()
    }
}

impl Stage for Count {
    fn apply(&self, words: &mut Vec<String>) -> usize {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let mut order: BTreeMap<usize, &str> = BTreeMap::new();
        for (at, word) in words.iter().enumerate() {
            *seen.entry(word).or_default() += at;
            order.insert(at * 7919 % 1009, word);
        }
        seen.len() + order.len()
    }
}

#[inline(never)]
fn round(number: usize, stages: &[Box<dyn Stage>]) -> usize {
    let mut words: Vec<String> = (0..1000).map(|at| format!("word {}", (at * 7919 + number) % 1009)).collect();
    stages.iter().map(|stage| stage.apply(&mut words)).sum()
}

fn main() {
    let threads: Vec<_> = (0..2)
        .map(|number| {
            std::thread::spawn(move || {
                let stages: Vec<Box<dyn Stage>> = vec![Box::new(Sort), Box::new(Count)];
                let mut sum = number;
                loop {
                    sum = black_box(round(sum, &stages));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
