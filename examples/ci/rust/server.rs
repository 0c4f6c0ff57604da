//! Receives messages, each after its length in eight bytes, and answers each with its CRC-32 in four bytes.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

#[path = "sum.rs"]
mod sum;

fn serve(mut connection: TcpStream) -> io::Result<()> {
    loop {
        let mut length = [0; 8];
        connection.read_exact(&mut length)?;
        let mut message = Vec::new();
        let length = u64::from_be_bytes(length);
        if (&mut connection).take(length).read_to_end(&mut message)? as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        connection.write_all(&sum::crc32(&message).to_be_bytes())?;
    }
}

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse::<u16>().ok());
    let listener = TcpListener::bind(("0.0.0.0", port.ok_or(io::ErrorKind::InvalidInput)?))?;
    println!("listening");
    for connection in listener.incoming() {
        let connection = connection?;
        // The client has closed the connection.
        std::thread::spawn(move || serve(connection));
    }
    Ok(())
}
