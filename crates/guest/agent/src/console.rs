//! A program on the guest's console: a shell, or one command, at the terminal of whoever started the guest.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
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

/// Starts it.
pub(crate) fn start(order: &ConsoleOrder, hosts: &Hosts) -> Result<Pid, Failure> {
    let open = || -> Result<File, Failure> {
        OpenOptions::new().read(true).write(true).open(TERMINAL).doing(|| format!("open {TERMINAL}"))
    };
    let terminal = open()?;
    if let Some((rows, columns)) = order.size {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the pointer is to a winsize that lives through the call. A terminal without a size does no harm.
        let _ = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    }
    let mut command =
        programs::command(&order.words, &order.environment, &order.directory, hosts, order.host)?;
    // The controlling terminal, whatever it reads and writes.
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
