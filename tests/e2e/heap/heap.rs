// SPDX-License-Identifier: Apache-2.0
//! The server of heap.cc in Rust, with a statically linked jemalloc as its global allocator. As in the usual crate, jemalloc's
//! functions have a prefix, so that libc's malloc stays what C libraries use.
use std::alloc::{GlobalAlloc, Layout};
use std::collections::VecDeque;
use std::hint::black_box;
use std::io::Write;

extern "C" {
    fn _rjem_mallocx(size: usize, flags: i32) -> *mut u8;
    fn _rjem_rallocx(block: *mut u8, size: usize, flags: i32) -> *mut u8;
    fn _rjem_sdallocx(block: *mut u8, size: usize, flags: i32);
    fn _rjem_calloc(count: usize, size: usize) -> *mut u8;
}

struct Jemalloc;

unsafe impl GlobalAlloc for Jemalloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        _rjem_mallocx(layout.size(), layout.align().trailing_zeros() as i32)
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        _rjem_calloc(1, layout.size())
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        _rjem_rallocx(block, size, layout.align().trailing_zeros() as i32)
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        _rjem_sdallocx(block, layout.size(), layout.align().trailing_zeros() as i32)
    }
}

#[global_allocator]
static GLOBAL: Jemalloc = Jemalloc;

#[inline(never)]
fn parse_request() {
    let mut parts: Vec<Box<[u8]>> = Vec::with_capacity(3072);
    for i in 0..3072usize {
        let mut part = Vec::with_capacity(1024);
        part.resize(1024, i as u8);
        parts.push(part.into_boxed_slice());
    }
    black_box(&parts);
}

#[inline(never)]
fn encode_reply() {
    black_box(vec![b'x'; 1 << 20]);
}

#[inline(never)]
fn grow_cache(cache: &mut VecDeque<Vec<u8>>) {
    cache.push_back(vec![1u8; 1 << 16]);
    if cache.len() > 512 {
        cache.pop_front();
    }
}

fn main() {
    let mut cache = VecDeque::new();
    println!("ready");
    std::io::stdout().flush().unwrap();
    loop {
        parse_request();
        encode_reply();
        grow_cache(&mut cache);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
