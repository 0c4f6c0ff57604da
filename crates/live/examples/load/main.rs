//! Load for measurements of an emulator: round-trip times, packets one way, round trips at full speed.
//!
//! ```text
//! load sink PORT                    counts datagrams (one way), echoes those that begin with "e"
//! load rtt ADDRESS COUNT GAP_US     round trips of single datagrams: microseconds, minimum, median, mean, deviation, maximum
//! load flood ADDRESS SECONDS RATE   64-byte packets one way, RATE a second (0: as fast as can be); asks the sink for its count
//! load pingpong ADDRESS SECONDS N   64-byte packets there and back, N of them under way
//! load shell SPIN_US LINGER_US RATE DELAY_US QUEUE -- COMMAND...   a shell without the command line's comforts (0: no limit)
//! ```

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measuring program: it reads the clock and prints what it measured"
)]

#[cfg(target_os = "linux")]
mod load;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    load::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("Linux only");
}
