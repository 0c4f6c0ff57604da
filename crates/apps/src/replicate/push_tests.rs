//! Receivers that hang in any way are given up, and delay no other receiver.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use warpline_stacks::quic::{Connection, Identity, RecvStream, SendStream, Server, Settings, Trust};

use super::build::{Progress, Step};
use super::protocol::{Answer, Hello, Say, receive, receive_manifest, send};
use super::push::{PushOptions, push};
use super::serve::{ServeOptions, serve};

const PATIENCE: Duration = Duration::from_secs(2);

#[expect(clippy::disallowed_methods, reason = "real connections take real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "real connections take real time")]
fn pause(span: Duration) {
    thread::sleep(span);
}

fn settings() -> Settings {
    // Keep-alives all the time: the connection itself never ends.
    Settings { idle_timeout: Duration::from_secs(4), ..Settings::default() }
}

/// A receiver that receives the description and then does what `talk` does, on every connection, until `stop` is set.
fn strange(
    server: &Server,
    stop: &AtomicBool,
    act: impl Fn(&Connection, &mut SendStream, &mut RecvStream) -> std::io::Result<()> + Sync,
) {
    thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            let Ok(Some(connection)) = server.accept(Duration::from_millis(100)) else { continue };
            let act = &act;
            scope.spawn(move || {
                let talk = || -> std::io::Result<()> {
                    let (mut to, mut from) = connection.accept()?;
                    let hello: Hello = receive(&mut from)?;
                    receive_manifest(&mut from, &hello)?;
                    act(&connection, &mut to, &mut from)
                };
                // The sender ends it.
                let _ = talk();
                while connection.close_reason().is_none() && !stop.load(Ordering::Relaxed) {
                    pause(Duration::from_millis(20));
                }
            });
        }
    });
}

/// Pushes to a faulty receiver and then to an honest one, one at a time. Returns the outcome of the faulty one.
fn pushed(
    act: impl Fn(&Connection, &mut SendStream, &mut RecvStream) -> std::io::Result<()> + Send + Sync,
) -> (String, Duration) {
    let key = Identity::generate().unwrap();
    let trust = Trust::only(key.public());
    // In memory, where there is such a directory: to a busy disk, two seconds are nothing.
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let source = directory.path().join("source");
    std::fs::create_dir(&source).unwrap();
    for number in 0..4u8 {
        let bytes: Vec<u8> =
            (0..300_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ number).collect();
        std::fs::write(source.join(number.to_string()), bytes).unwrap();
    }
    let server = Server::bind("127.0.0.1:0", &key, &trust, &settings()).unwrap();
    let hangs = server.local_addr().unwrap().to_string();
    let (stop, said) = (AtomicBool::new(false), std::sync::mpsc::channel());
    thread::scope(|scope| {
        scope.spawn(|| strange(&server, &stop, act));
        let (key, trust, store) = (&key, &trust, directory.path().join("store"));
        scope.spawn(move || {
            let options = ServeOptions { keep: 1, once: true, settings: settings() };
            let mut tell = |event: super::serve::Event<'_>| {
                if let super::serve::Event::Listening { address, .. } = event {
                    said.0.send(address.to_string()).unwrap();
                }
            };
            serve(&store, "127.0.0.1:0", key, trust, options, &mut tell).unwrap();
        });
        let honest = said.1.recv().unwrap();
        let options = PushOptions {
            at_once: 1,
            patience: PATIENCE,
            skip_special: false,
            verify: false,
            limit: None,
            settings: settings(),
        };
        let began = now();
        let finished = std::sync::Mutex::new(None);
        let observe = |host: Option<usize>, event: super::push::Event| {
            let all = matches!(event, super::push::Event::Progress(Progress { step: Step::Checking, .. }));
            if host == Some(1) && all {
                finished.lock().unwrap().get_or_insert_with(|| now() - began);
            }
        };
        let (_, outcomes) = push(&source, &[hangs, honest], key, trust, &options, &observe).unwrap();
        let took = now() - began;
        stop.store(true, Ordering::Relaxed);
        assert!(outcomes[1].result.is_ok(), "{:?}", outcomes[1]);
        // The honest one was served while the other hung, though only one is served at a time.
        let honest = finished.lock().unwrap().unwrap();
        assert!(honest < took, "{honest:?} of {took:?}");
        (outcomes[0].result.clone().unwrap_err(), took)
    })
}

#[test]
fn a_silent_receiver_is_given_up() {
    let (reason, took) = pushed(|_, _, _| Ok(()));
    assert!(reason.starts_with("no progress in 2 s"), "{reason}");
    assert!(took >= PATIENCE);
}

#[test]
fn a_receiver_that_stops_half_way_is_given_up() {
    let (reason, _) = pushed(|_, to, from| {
        // The first entry is the root.
        send(to, &Say::Want { entry: 1, chunk: 0 })?;
        let _: Answer = receive(from)?;
        send(to, &Say::Want { entry: 2, chunk: 0 })
    });
    assert!(reason.starts_with("no progress in 2 s"), "{reason}");
}

#[test]
fn a_receiver_that_is_almost_silent_is_given_up() {
    let (reason, _) = pushed(|connection, to, _| {
        for done in 0.. {
            send(to, &Say::Progress(Progress { step: Step::Comparing, done: done % 7, total: 1_200_000 }))?;
            pause(Duration::from_millis(50));
            if connection.close_reason().is_some() {
                break;
            }
        }
        Ok(())
    });
    assert!(reason.starts_with("no progress in 2 s"), "{reason}");
}

#[test]
fn a_receiver_that_takes_the_same_chunk_for_ever_is_given_up() {
    let (reason, _) = pushed(|_, to, from| {
        loop {
            send(to, &Say::Want { entry: 1, chunk: 0 })?;
            let _: Answer = receive(from)?;
        }
    });
    // On a busy machine, the time may be over before enough requests for the chunk have come. Either way the receiver is given up.
    assert!(
        reason.contains("the same chunk over and over") || reason.starts_with("no progress in 2 s"),
        "{reason}"
    );
}

#[test]
fn a_receivers_reason_does_not_command_the_terminal() {
    let (reason, _) = pushed(|connection, to, _| {
        send(to, &Say::Failed { reason: "\u{1b}[2Jall is well".to_owned(), passing: false })?;
        // The stream is dropped only when the sender has read the reason and closed the connection.
        while connection.close_reason().is_none() {
            pause(Duration::from_millis(50));
        }
        Ok(())
    });
    assert_eq!(reason, "\u{fffd}[2Jall is well");
}
