//! A control socket and its clients, good and bad.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use super::*;

/// A socket in a directory of the test's own that answers with what it was asked, backwards.
fn served() -> (tempfile::TempDir, PathBuf, Serving) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.sock");
    let socket = Socket::bind(&Place::At(path.clone()), "run").unwrap();
    let serving = socket.serve(|line| line.chars().rev().collect()).unwrap();
    (directory, path, serving)
}

#[test]
fn lines_are_answered_and_the_socket_is_gone_at_the_end() {
    let (_directory, path, serving) = served();
    assert_eq!(std::fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(ask(&path, "abc", PATIENCE).unwrap(), "cba");
    let mut two = UnixStream::connect(&path).unwrap();
    two.write_all(b"12\n34").unwrap();
    two.write_all(b"5\n").unwrap();
    two.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answers = String::new();
    two.read_to_string(&mut answers).unwrap();
    assert_eq!(answers, "21\n543\n");
    drop(serving);
    assert!(!path.exists());
    assert!(matches!(ask(&path, "abc", PATIENCE), Err(ControlError::Nobody { .. })));
}

#[test]
fn lines_of_a_client_that_has_hung_up_are_dropped_and_those_of_one_that_still_reads_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.sock");
    let socket = Socket::bind(&Place::At(path.clone()), "run").unwrap();
    // Both come before the run begins.
    let mut gone = UnixStream::connect(&path).unwrap();
    gone.write_all(b"gone\n").unwrap();
    drop(gone);
    let mut reads = UnixStream::connect(&path).unwrap();
    reads.write_all(b"reads\n").unwrap();
    reads.shutdown(std::net::Shutdown::Write).unwrap();
    let (hear, heard) = std::sync::mpsc::channel();
    let serving = socket.serve(move |line| {
        hear.send(line.to_owned()).unwrap();
        line.to_owned()
    });
    let serving = serving.unwrap();
    let mut answers = String::new();
    reads.read_to_string(&mut answers).unwrap();
    assert_eq!(answers, "reads\n");
    drop(serving);
    assert_eq!(heard.iter().collect::<Vec<String>>(), ["reads"]);
}

#[test]
fn clients_that_are_silent_endless_or_do_not_read_keep_nobody_waiting() {
    let (_directory, path, _serving) = served();
    let silent: Vec<UnixStream> = (0..40).map(|_| UnixStream::connect(&path).unwrap()).collect();
    assert_eq!(ask(&path, "abc", PATIENCE).unwrap(), "cba");
    // A line without an end: the server hangs up.
    let mut endless = UnixStream::connect(&path).unwrap();
    let refused = (0..1000).any(|_| endless.write_all(&[b'x'; 4096]).is_err());
    assert!(refused);
    // Answers that nobody reads: it hangs up, too.
    let mut deaf = UnixStream::connect(&path).unwrap();
    let mut line = vec![b'y'; 60_000];
    line.push(b'\n');
    let refused = (0..1000).any(|_| deaf.write_all(&line).is_err());
    assert!(refused);
    assert_eq!(ask(&path, "abc", PATIENCE).unwrap(), "cba");
    drop(silent);
}

#[test]
fn a_socket_that_was_left_behind_is_replaced_and_another_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.sock");
    // Closed, but not removed: as after kill -9.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let place = Place::At(path.clone());
    let socket = Socket::bind(&place, "run").unwrap();
    assert!(matches!(Socket::bind(&place, "run"), Err(ControlError::InUse(_))));
    drop(socket);
    std::fs::write(&path, "data").unwrap();
    assert!(matches!(Socket::bind(&place, "run"), Err(ControlError::Taken(_))));
    assert_eq!(std::fs::read(&path).unwrap(), b"data");
}

#[test]
fn the_bell_rings_until_all_orders_are_taken() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let (post, inbox) = post().unwrap();
    let rings = || {
        let mut fds = [PollFd::from_borrowed_fd(inbox.bell(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    };
    assert!(!rings() && inbox.take(true).next().is_none());
    assert!(post.send(1) && post.send(2) && rings());
    assert_eq!(inbox.take(false).collect::<Vec<_>>(), [1, 2]);
    assert!(rings() && inbox.take(true).next().is_none() && !rings());
    let (post, inbox) = super::post::<u8>().unwrap();
    drop(inbox);
    assert!(!post.send(1));
}
