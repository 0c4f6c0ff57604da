//! A program on the guest's console: a shell, or one command, at the terminal of the user who started the guest.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use nix::errno::Errno;
use nix::libc;
use nix::unistd::{Pid, setsid};
use warpline_agent::ConsoleOrder;

use crate::failure::{Doing, Failure};
use crate::hosts::Hosts;
use crate::programs;

/// The console as a terminal: `con0` of the boot line.
const TERMINAL: &str = "/dev/tty0";
/// Reports changes of the terminal's size: `con1` of the boot line. Each is a line with rows and columns.
const SIZES: &str = "/dev/tty1";
/// Stack size of the thread that waits for them.
const STACK: usize = 128 << 10;

/// Sets the terminal's size, which the kernel signals to the foreground program. A terminal without a size does no harm.
fn set_size(terminal: &File, rows: u16, columns: u16) {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the pointer is to a winsize that lives through the call.
    let _ = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
}

/// Makes the terminal's size follow that of the user's terminal.
fn follow_size(terminal: File) -> Result<(), Failure> {
    let sizes = OpenOptions::new().read(true).custom_flags(libc::O_NOCTTY).open(SIZES);
    let sizes = sizes.doing(|| format!("open {SIZES}"))?;
    let follow = move || {
        for line in BufReader::new(sizes).lines().map_while(Result::ok) {
            let size = line.split_once(' ').map(|(rows, columns)| (rows.parse(), columns.parse()));
            if let Some((Ok(rows), Ok(columns))) = size {
                set_size(&terminal, rows, columns);
            }
        }
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(follow);
    thread.map(drop).doing(|| "start a thread for the terminal's size".to_owned())
}

/// Starts the console's program.
pub(crate) fn start(order: &ConsoleOrder, hosts: &Hosts) -> Result<Pid, Failure> {
    let open = || -> Result<File, Failure> {
        OpenOptions::new().read(true).write(true).open(TERMINAL).doing(|| format!("open {TERMINAL}"))
    };
    let terminal = open()?;
    if let Some((rows, columns)) = order.size {
        set_size(&terminal, rows, columns);
        follow_size(open()?)?;
    }
    let mut command =
        programs::command(&order.words, &order.environment, &order.directory, hosts, order.host)?;
    // The controlling terminal, whatever the program reads and writes.
    let control = open()?;
    match &order.output {
        None => command.stdin(open()?).stdout(open()?).stderr(terminal),
        Some(name) => {
            let [stdout, stderr] = programs::outputs(name)?;
            command.stdin(Stdio::null()).stdout(stdout).stderr(stderr)
        }
    };
    // SAFETY: the closure makes two system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            setsid()?;
            // SAFETY: no pointers are passed.
            Errno::result(libc::ioctl(control.as_raw_fd(), libc::TIOCSCTTY, 0))?;
            Ok(())
        });
    }
    let child = command.spawn().doing(|| format!("start {}", order.words[0]))?;
    Ok(Pid::from_raw(child.id() as i32))
}
