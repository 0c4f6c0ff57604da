//! Sends messages of several sizes to the server and checks its answers; ends with exit code 1 if one is wrong.

use std::io::{self, Read, Write};
use std::net::TcpStream;

#[path = "sum.rs"]
mod sum;

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let mut connection = TcpStream::connect(format!("{}:{}", words[1], words[2]))?;
    for size in [0, 1, 1000, 300_000_usize] {
        let message: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        connection.write_all(&(size as u64).to_be_bytes())?;
        connection.write_all(&message)?;
        let mut answer = [0; 4];
        connection.read_exact(&mut answer)?;
        if u32::from_be_bytes(answer) != sum::crc32(&message) {
            return Err(io::Error::other(format!("wrong answer to {size} bytes")));
        }
        println!("{size} bytes: right");
    }
    Ok(())
}
