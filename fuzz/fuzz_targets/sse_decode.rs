#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| steadfast_sim::fuzz::sse_decode(bytes));
