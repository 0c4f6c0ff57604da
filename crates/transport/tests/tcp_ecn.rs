//! ECN between two ends, segment by segment: what is negotiated, which packets are ECN-capable, and what comes back for marks on chosen packets.

use std::collections::BTreeMap;

use warpline_core::{AccEcn, Bytes, Ecn, Flags, SackBlocks, Segment, TimeDelta, Timestamp};
use warpline_transport::cc::{Algorithm, CongestionControl, Controller};
use warpline_transport::tcp::{Connection, EcnFeedback, TcpConfig};

/// Payload of a full segment: no timestamps.
const MSS: u64 = 1000;
/// One way.
const DELAY: TimeDelta = TimeDelta::from_millis(10);

/// Options without what is in the way here.
fn plain() -> TcpConfig {
    TcpConfig { mss: Bytes(MSS), timestamps: false, tlp: false, quick_acks: 0, ..TcpConfig::default() }
}

fn ecn(feedback: EcnFeedback) -> TcpConfig {
    TcpConfig { ecn: true, ecn_feedback: feedback, ..plain() }
}

/// A segment that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    from_client: bool,
    segment: Segment,
    ecn: Ecn,
}

impl Sent {
    /// Segments that it acknowledges, and its echo.
    fn echo(&self) -> (u64, Flags) {
        ((self.segment.ack - 1) / MSS, Flags::default().with_ace(self.segment.flags.ace()))
    }
}

/// A box on the way that does not know the AccECN option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Middlebox {
    Drops,
    Strips,
}

/// A client that sends data, a server, and the path between them, on which a test marks and drops the segments that it names.
struct Path {
    client: Connection<Controller>,
    server: Connection<Controller>,
    now: Timestamp,
    flying: BTreeMap<(Timestamp, usize), (bool, Segment, Ecn)>,
    sent: Vec<Sent>,
    /// Numbers of the data segments that are marked, retransmissions included, if they are ECN-capable.
    mark: Vec<usize>,
    /// Numbers of the data segments that are lost.
    lose: Vec<usize>,
    /// Numbers of the server's segments that are lost.
    lose_back: Vec<usize>,
    /// What happens to the server's segments with an AccECN option, from this number on.
    options: Option<(Middlebox, usize)>,
    data: usize,
    back: usize,
    /// The client's data goes over a link that takes so long for a packet, and marks those that find so many waiting.
    link: Option<(TimeDelta, u64)>,
    /// When it will be free, and the sum of what data segments found waiting there.
    free: Timestamp,
    found: u64,
}

impl Path {
    fn new((client_cc, client): (&str, &TcpConfig), (server_cc, server): (&str, &TcpConfig)) -> Path {
        let control = |name: &str, config: &TcpConfig| {
            name.parse::<Algorithm>().expect("a known name").build(&config.cc_config())
        };
        Path {
            client: Connection::client(client.clone(), control(client_cc, client)),
            server: Connection::server(server.clone(), control(server_cc, server)),
            now: Timestamp::ZERO,
            flying: BTreeMap::new(),
            sent: Vec::new(),
            mark: Vec::new(),
            lose: Vec::new(),
            lose_back: Vec::new(),
            options: None,
            data: 0,
            back: 0,
            link: None,
            free: Timestamp::ZERO,
            found: 0,
        }
    }

    fn marking(mut self, data: impl IntoIterator<Item = usize>) -> Path {
        self.mark = data.into_iter().collect();
        self
    }

    /// Opens the connection, sends so many full segments, and waits.
    fn send(mut self, segments: u64) -> Path {
        self.client.open(self.now);
        self.client.write(segments * MSS);
        self.run(TimeDelta::from_secs(3));
        self
    }

    fn run(&mut self, span: TimeDelta) {
        let until = self.now + span;
        loop {
            for from_client in [true, false] {
                let end = if from_client { &mut self.client } else { &mut self.server };
                while let Some((mut segment, ecn)) = end.poll_transmit(self.now) {
                    self.sent.push(Sent { from_client, segment, ecn });
                    let (mut lost, mut marked, mut leaves) = (false, false, self.now);
                    if from_client && segment.len > 0 {
                        marked = self.mark.contains(&self.data) && ecn != Ecn::NotEct;
                        lost = self.lose.contains(&self.data);
                        self.data += 1;
                        if let Some((span, threshold)) = self.link {
                            let waiting = self.free.saturating_since(self.now).as_nanos() / span.as_nanos();
                            self.found += waiting;
                            marked |= waiting >= threshold && ecn != Ecn::NotEct;
                            self.free = self.free.max(self.now) + span;
                            leaves = self.free;
                        }
                    } else if !from_client {
                        lost = self.lose_back.contains(&self.back);
                        if let Some((middlebox, from)) = self.options
                            && self.back >= from
                            && segment.accecn().is_some()
                        {
                            lost |= middlebox == Middlebox::Drops;
                            segment.sack = SackBlocks::NONE;
                        }
                        self.back += 1;
                    }
                    if !lost {
                        let number = self.sent.len();
                        let at = leaves + DELAY;
                        let ecn = if marked { Ecn::Ce } else { ecn };
                        self.flying.insert((at, number), (from_client, segment, ecn));
                    }
                }
            }
            let arrival = self.flying.keys().next().map_or(Timestamp::NEVER, |&(at, _)| at);
            let next = arrival.min(self.client.poll_timeout()).min(self.server.poll_timeout());
            if next > until {
                self.now = until;
                return;
            }
            self.now = self.now.max(next);
            if arrival <= self.now
                && let Some((_, (to_server, segment, ecn))) = self.flying.pop_first()
            {
                let end = if to_server { &mut self.server } else { &mut self.client };
                end.handle_segment(self.now, &segment, ecn);
            } else {
                self.client.handle_timeout(self.now);
                self.server.handle_timeout(self.now);
            }
        }
    }

    /// What the server's acknowledgements of data say: segments acknowledged, and the echo.
    fn acks(&self) -> Vec<(u64, Flags)> {
        self.sent
            .iter()
            .filter(|s| !s.from_client && !s.segment.flags.contains(Flags::SYN))
            .map(Sent::echo)
            .collect()
    }

    /// Codepoints of what the client or the server sent, each once, where `of` holds.
    fn codepoints(&self, of: impl Fn(&Sent) -> bool) -> Vec<Ecn> {
        let mut seen: Vec<Ecn> = Vec::new();
        for sent in self.sent.iter().filter(|s| of(s)) {
            if !seen.contains(&sent.ecn) {
                seen.push(sent.ecn);
            }
        }
        seen
    }

    fn alpha(&self) -> f64 {
        match self.client.congestion_control() {
            Controller::Dctcp(dctcp) => dctcp.alpha(),
            Controller::Prague(prague) => prague.alpha(),
            other => panic!("{} has no alpha", other.name()),
        }
    }
}

const NO: Flags = Flags(0);
const ECE: Flags = Flags::ECE;

#[test]
fn dctcps_receiver_echoes_each_mark_as_it_came_and_delayed_acks_do_not_blur_them() {
    // Of segments 0 to 7, 3 and 4 come marked.
    let path = |delayed: u64| {
        let config = TcpConfig { delayed_ack: TimeDelta::from_millis(delayed), ..plain() };
        Path::new(("dctcp", &config), ("dctcp", &config)).marking([3, 4]).send(8)
    };
    let delayed = path(40);
    assert_eq!(
        delayed.acks(),
        // 2 had come before the mark, and waited; 4 waited when the marks ended.
        [(2, NO), (3, NO), (4, ECE), (5, ECE), (6, NO), (8, NO)]
    );
    let at_once = path(0);
    assert_eq!(at_once.acks(), [(1, NO), (2, NO), (3, NO), (4, ECE), (5, ECE), (6, NO), (7, NO), (8, NO)]);
    // Alpha begins at one. The first acknowledgement ends the window of nothing; the next window is the rest.
    let alpha = |first: f64, marked: f64| {
        let before: f64 = 15.0 / 16.0;
        before + (marked / (8.0 - first) - before) / 16.0
    };
    assert!((delayed.alpha() - alpha(2.0, 2.0)).abs() < 1e-12, "{}", delayed.alpha());
    assert!((at_once.alpha() - alpha(1.0, 2.0)).abs() < 1e-12, "{}", at_once.alpha());
    // Before the mark the window grew to thirteen, since more than half of it was in use. It falls by half of alpha, and does not grow until all
    // that was out then is acknowledged; nothing came after that.
    for path in [&delayed, &at_once] {
        assert_eq!(path.client.cwnd(), 13_000 * 17 / 32, "{:?}", path.client.stats());
        assert_eq!((path.client.stats().ecn_reductions, path.server.stats().ce_marks), (1, 2));
    }
}

#[test]
fn the_latched_echo_of_rfc_3168_is_one_signal_where_dctcp_has_as_many_as_there_are_marks() {
    let config = ecn(EcnFeedback::Auto);
    let path = Path::new(("reno", &config), ("reno", &config)).marking([3]).send(20);
    let acks = path.acks();
    // Ten at first; then the window is halved, and the first segment after that says so.
    let echoes = acks.iter().filter(|ack| ack.1 == ECE).count();
    assert_eq!(acks[..5], [(2, NO), (4, ECE), (6, ECE), (8, ECE), (10, ECE)]);
    assert!(echoes > 4, "{acks:?}");
    assert_eq!(acks.last(), Some(&(20, NO)), "{acks:?}");
    let cwr = path.sent.iter().filter(|s| s.segment.flags.contains(Flags::CWR) && s.segment.len > 0);
    assert_eq!(cwr.count(), 1);
    assert_eq!(path.client.stats().ecn_reductions, 1);
}

#[test]
fn a_mark_in_a_window_that_was_halved_for_a_loss_is_answered_by_that() {
    let config = ecn(EcnFeedback::Auto);
    let mut path = Path::new(("reno", &config), ("reno", &config)).marking([6]);
    path.lose = vec![1];
    let path = path.send(60);
    let stats = path.client.stats();
    assert_eq!((stats.recoveries, stats.ecn_reductions), (1, 0));
    let cwr = path.sent.iter().filter(|s| s.segment.flags.contains(Flags::CWR) && s.segment.len > 0);
    assert_eq!(cwr.count(), 1);
}

#[test]
fn a_mark_counts_though_its_acknowledgement_leaves_nothing_outstanding() {
    let config = ecn(EcnFeedback::Auto);
    let path = Path::new(("reno", &config), ("reno", &config)).marking([1]).send(2);
    assert_eq!(path.acks(), [(2, ECE)]);
    assert_eq!(path.client.stats().ecn_reductions, 1);
    assert!(path.client.ssthresh() < 10 * MSS, "{}", path.client.ssthresh());
}

#[test]
fn one_reduction_per_window_of_data_whatever_is_marked() {
    let config = plain();
    let path = Path::new(("dctcp", &config), ("dctcp", &config)).marking(0..30).send(30);
    // Ten segments, then what half a window and less lets out, and then two by two: alpha stays near one.
    assert!((4..=12).contains(&path.client.stats().ecn_reductions), "{:?}", path.client.stats());
    assert!(path.alpha() > 0.9, "{}", path.alpha());
    assert_eq!(path.client.stats().retransmitted_segments, 0);
    assert!(path.client.cwnd() <= 3000, "{}", path.client.cwnd());
    // Without marks alpha fades, by a sixteenth per window of data.
    let path = Path::new(("dctcp", &config), ("dctcp", &config)).send(30);
    assert!((0.5..0.9).contains(&path.alpha()), "{}", path.alpha());
}

#[test]
fn an_acknowledgement_that_ends_a_window_of_data_moves_alpha_before_its_mark_reduces_the_window() {
    let config = TcpConfig { delayed_ack: TimeDelta::ZERO, ..plain() };
    // The first acknowledgement ends the window of nothing before it, and all of it is marked: alpha is 17/32 then, and ten segments fall by half of that.
    let path = Path::new(("dctcp:initial_alpha=0.5", &config), ("dctcp", &config)).marking([0]).send(10);
    assert_eq!(path.acks().first(), Some(&(1, ECE)));
    assert_eq!(path.client.stats().ecn_reductions, 1);
    assert_eq!(path.client.ssthresh(), 10 * MSS * 47 / 64);
}

#[test]
fn a_loss_halves_dctcps_window_even_right_after_a_mark() {
    let config = TcpConfig { rack: false, prr: false, ..plain() };
    let reduced = |marked: &[usize], lost: &[usize]| {
        let mut path = Path::new(("dctcp:initial_alpha=0.1", &config), ("dctcp", &config));
        (path.mark, path.lose) = (marked.to_vec(), lost.to_vec());
        let path = path.send(10);
        let stats = *path.client.stats();
        (stats.ecn_reductions, stats.recoveries, path.client.ssthresh())
    };
    let (marks, recoveries, after_mark) = reduced(&[1], &[]);
    assert_eq!((marks, recoveries), (1, 0));
    assert!(after_mark > 9_000, "{after_mark}");
    let (marks, recoveries, after_both) = reduced(&[1], &[4]);
    assert_eq!((marks, recoveries), (1, 1));
    assert!((after_mark / 2 - 1000..=after_mark / 2).contains(&after_both), "{after_both}");
}

#[test]
fn a_tail_loss_in_a_window_that_was_reduced_for_a_mark_is_probed() {
    let config = TcpConfig { tlp: true, delayed_ack: TimeDelta::ZERO, ..plain() };
    let mut path = Path::new(("dctcp", &config), ("dctcp", &config)).marking([1]);
    path.lose = vec![9];
    let path = path.send(10);
    let stats = path.client.stats();
    assert_eq!((stats.ecn_reductions, stats.tail_probes, stats.rtos), (1, 1, 0));
    assert_eq!(path.client.bytes_acked(), 10 * MSS);
    // The loss shows with the next data, and is more than the mark.
    let marked = path.client.ssthresh();
    let mut path = path;
    path.client.write(MSS);
    path.run(TimeDelta::from_secs(1));
    let stats = path.client.stats();
    assert_eq!((stats.recoveries, stats.lost_segments), (1, 1));
    assert!(path.client.ssthresh() < marked, "{} {marked}", path.client.ssthresh());
}

#[test]
fn all_of_dctcps_packets_are_ecn_capable_and_only_new_data_of_rfc_3168() {
    let is_data = |s: &Sent| s.segment.len > 0;
    let run = |cc: &str, config: &TcpConfig| {
        let mut path = Path::new((cc, config), (cc, config));
        path.lose = vec![2];
        path.client.open(path.now);
        path.client.write(8 * MSS);
        path.run(TimeDelta::from_secs(1));
        path.client.close();
        path.run(TimeDelta::from_secs(1));
        path.server.abort(path.now);
        path.run(TimeDelta::from_secs(1));
        assert!(path.sent.iter().any(|s| s.segment.flags.contains(Flags::RST)));
        assert!(path.client.stats().retransmitted_segments > 0);
        path
    };
    let dctcp = run("dctcp", &plain());
    assert_eq!(dctcp.codepoints(|_| true), [Ecn::Ect0], "{:?}", dctcp.sent);
    let prague = run("prague", &plain());
    let is_syn = |s: &Sent| s.segment.flags.contains(Flags::SYN);
    assert_eq!(prague.codepoints(|s| !is_syn(s)), [Ecn::Ect1], "{:?}", prague.sent);
    assert_eq!(prague.codepoints(is_syn), [Ecn::NotEct]);
    let classic = run("reno", &ecn(EcnFeedback::Auto));
    assert_eq!(classic.codepoints(|s| !is_data(s)), [Ecn::NotEct]);
    let mut highest = 0;
    for sent in classic.sent.iter().filter(|s| is_data(s)) {
        let again = sent.segment.seq < highest;
        highest = highest.max(sent.segment.seq + 1);
        assert_eq!(sent.ecn, if again { Ecn::NotEct } else { Ecn::Ect0 }, "{sent:?}");
    }
}

#[test]
fn accurate_feedback_counts_marks_and_delayed_acks_lose_none() {
    let path = |delayed: u64, marked: &[usize]| {
        let config = TcpConfig { delayed_ack: TimeDelta::from_millis(delayed), ..ecn(EcnFeedback::Accecn) };
        Path::new(("dctcp", &config), ("dctcp", &config)).marking(marked.iter().copied()).send(8)
    };
    let count = |acks: &[(u64, Flags)]| acks.iter().map(|ack| (ack.0, ack.1.ace())).collect::<Vec<_>>();
    // The first mark of several is acknowledged at once, and so is one while another segment waits.
    let delayed = path(40, &[3, 4, 6]);
    assert_eq!(count(&delayed.acks()), [(2, 5), (4, 6), (6, 7), (7, 0), (8, 0)]);
    let at_once = path(0, &[3, 4, 6]);
    assert_eq!(count(&at_once.acks()), [(1, 5), (2, 5), (3, 5), (4, 6), (5, 7), (6, 7), (7, 0), (8, 0)]);
    for path in [&delayed, &at_once] {
        assert_eq!((path.client.stats().ecn_reductions, path.server.stats().ce_marks), (1, 3));
        let first = if path.alpha() == delayed.alpha() { 2.0 } else { 1.0 };
        let before = 15.0 / 16.0;
        let alpha = before + (3.0 / (8.0 - first) - before) / 16.0;
        assert!((path.alpha() - alpha).abs() < 1e-12, "{} and {alpha}", path.alpha());
        let reduced = |s: &&Sent| s.from_client && s.segment.flags.ace() != 5 && s.segment.len > 0;
        assert_eq!(path.sent.iter().find(reduced).map(|s| s.segment), None, "no CWR: it is a counter");
    }
    // The first acknowledgement says that the SYN/ACK came in a packet that was not ECN-capable; data follows.
    let first = delayed.sent.iter().find(|s| s.from_client && !s.segment.flags.contains(Flags::SYN));
    assert_eq!(first.map(|s| (s.segment.len, s.segment.flags.ace())), Some((0, 2)));
}

#[test]
fn a_lost_acknowledgement_loses_no_marks_and_a_counter_that_went_round_is_taken_for_all() {
    let with = TcpConfig { delayed_ack: TimeDelta::ZERO, ..ecn(EcnFeedback::Accecn) };
    let without = TcpConfig { accecn_option: false, ..with.clone() };
    let alpha = |config: &TcpConfig, marked: std::ops::Range<usize>, lost: std::ops::Range<usize>| {
        let mut path = Path::new(("dctcp:gain=1", config), ("dctcp", config)).marking(marked);
        path.lose_back = lost.collect();
        let path = path.send(10);
        assert_eq!(path.client.stats().retransmitted_segments, 0);
        path.alpha()
    };
    let marked = |marked, lost| alpha(&without, marked, lost);
    // The server's first segment is the SYN/ACK. With a gain of one, alpha is the marked part of the last window: all but the first.
    assert_eq!(marked(3..5, 0..0), 2.0 / 9.0);
    assert_eq!(marked(3..5, 3..7), 2.0 / 9.0);
    // Nine in one acknowledgement, of which eight marked leave the counter as it was.
    assert_eq!(marked(1..9, 2..10), 8.0 / 9.0);
    assert_eq!(marked(0..0, 2..10), 8.0 / 9.0, "none and eight look alike");
    // Eight would not do: seven at most are seen.
    assert_eq!(marked(1..8, 2..9), 7.0 / 9.0);
    // The option says how many bytes they were.
    for (count, lost) in [(1..9, 2..10), (0..0, 2..10), (1..8, 2..9), (3..5, 3..7)] {
        let part = count.len() as f64 / 9.0;
        assert_eq!(alpha(&with, count, lost), part);
    }
}

/// The server's options: the segments acknowledged, and the option's fields as ECT(0), CE and ECT(1).
fn options(path: &Path) -> Vec<(u64, [Option<u32>; 3])> {
    let fields = |option: AccEcn| [option.ect0(), option.ce(), option.ect1()];
    let sent = path.sent.iter().filter(|s| !s.from_client);
    sent.filter_map(|s| Some(((s.segment.ack - 1) / MSS, fields(s.segment.accecn()?)))).collect()
}

#[test]
fn acknowledgements_say_how_many_bytes_came_with_which_codepoint() {
    let config = TcpConfig { delayed_ack: TimeDelta::from_millis(40), ..ecn(EcnFeedback::Accecn) };
    let path = Path::new(("dctcp", &config), ("dctcp", &config)).marking([3, 4]).send(8);
    assert_eq!(
        options(&path),
        [
            (0, [Some(1), Some(0), Some(1)]),
            (2, [Some(2001), None, None]),
            (4, [Some(3001), Some(1000), None]),
            (6, [Some(4001), Some(2000), None]),
            (8, [Some(6001), Some(2000), None]),
        ]
    );
    let data = path.sent.iter().filter(|s| s.segment.len > 0);
    assert!(data.clone().all(|s| s.segment.accecn().is_none()) && data.count() > 0);
    // The client's first acknowledgement has every counter, and its SYN none.
    let first: Vec<_> =
        path.sent.iter().filter(|s| s.from_client).take(2).map(|s| s.segment.accecn()).collect();
    assert_eq!(first, [None, Some(AccEcn::new([1, 0, 1], false, 3))]);
    assert_eq!(
        path.sent.iter().find(|s| s.segment.accecn().is_some()).unwrap().segment.options_len(),
        12 + 12
    );
    // L4S data comes as ECT(1).
    let path = Path::new(("prague", &config), ("prague", &config)).marking([3]).send(4);
    let last = [None, Some(1000), Some(3001)];
    assert_eq!(options(&path).last(), Some(&(4, last)), "{:?}", options(&path));
    // Who does not want it sends none, and reads the other's.
    let off = TcpConfig { accecn_option: false, ..config.clone() };
    let path = Path::new(("dctcp", &off), ("dctcp", &config)).marking([3, 4]).send(8);
    assert_eq!(options(&path).len(), 5);
    assert!(path.sent.iter().all(|s| !s.from_client || s.segment.accecn().is_none()));
    // Without AccECN there is nothing of it.
    let path = Path::new(("dctcp", &plain()), ("dctcp", &plain())).marking([3, 4]).send(8);
    assert_eq!(options(&path), []);
}

#[test]
fn where_the_option_does_not_come_through_both_ends_do_without() {
    let config = TcpConfig { delayed_ack: TimeDelta::ZERO, tlp: true, ..ecn(EcnFeedback::Accecn) };
    let run = |middlebox: Middlebox, from: usize| {
        let mut path = Path::new(("dctcp:gain=1", &config), ("dctcp", &config)).marking([2, 3]);
        path.options = Some((middlebox, from));
        let path = path.send(10);
        assert_eq!(path.client.bytes_acked(), 10 * MSS, "{middlebox:?} from {from}");
        path
    };
    // Options are cleared: nothing is lost, and the ACE field says as much.
    let path = run(Middlebox::Strips, 0);
    assert_eq!((path.client.stats().retransmitted_segments, path.client.stats().ecn_reductions), (0, 1));
    assert_eq!(path.alpha(), 2.0 / 9.0);
    // The SYN/ACK is lost, and goes out again without. No segment of the server's has an option then.
    let path = run(Middlebox::Drops, 0);
    assert_eq!(options(&path).len(), 1, "{:?}", options(&path));
    assert_eq!(path.client.stats().retransmitted_bytes, 0);
    // From the first acknowledgement on: after a probe and a time-out the server does without.
    let path = run(Middlebox::Drops, 1);
    let last_option = path.sent.iter().rposition(|s| !s.from_client && s.segment.accecn().is_some()).unwrap();
    assert!(
        path.sent[last_option..].iter().any(|s| !s.from_client && s.segment.ack > MSS),
        "{:?}",
        path.sent
    );
    assert!((1..=3).contains(&path.client.stats().retransmitted_segments), "{:?}", path.client.stats());
}

#[test]
fn a_client_that_has_nothing_to_say_but_its_first_acknowledgement_is_understood() {
    // The server sends. Its first acknowledgement has no counter yet.
    let config = ecn(EcnFeedback::Accecn);
    let mut path = Path::new(("dctcp", &config), ("dctcp", &config));
    path.client.open(path.now);
    path.server.write(4 * MSS);
    path.run(TimeDelta::from_secs(1));
    assert_eq!(path.server.bytes_acked(), 4 * MSS);
    assert_eq!(path.server.stats().ecn_reductions, 0, "{:?}", path.sent);
}

#[test]
fn pragues_window_falls_at_once_and_by_how_much_was_marked() {
    let config = TcpConfig { delayed_ack: TimeDelta::ZERO, ..plain() };
    let run = |server: &str| {
        let server = (server, &config);
        let path = Path::new(("prague", &config), server).marking((100..400).step_by(20)).send(400);
        let marked: Vec<u64> = path.acks().windows(2).filter(|w| w[0].1 != w[1].1).map(|w| w[1].0).collect();
        (marked.len(), path.client.stats().ecn_reductions, path.client.cwnd(), path)
    };
    // Each mark is an acknowledgement of its own, and the sender saw all: one in twenty leaves most of the window.
    let (marked, reductions, window, path) = run("prague");
    assert_eq!(marked, 15);
    assert!((4..=12).contains(&reductions), "{reductions}");
    assert!((0.005..0.05).contains(&path.alpha()), "{}", path.alpha());
    assert!(window > 40 * MSS, "{window}");
    // A server without ECN, and one that knows RFC 3168 alone, whose echoes halve the window.
    let (.., path) = run("reno");
    assert_eq!(path.codepoints(|s| s.segment.len > 0), [Ecn::NotEct]);
    let classic = ecn(EcnFeedback::Rfc3168);
    let path = Path::new(("prague", &config), ("reno", &classic)).marking((100..400).step_by(20)).send(400);
    assert_eq!(path.codepoints(|s| s.from_client && s.segment.len > 0), [Ecn::Ect0]);
    assert_eq!(path.alpha(), 0.0, "it counts no marks");
    assert!(path.client.cwnd() < 20 * MSS, "{}", path.client.cwnd());
    assert!(path.client.stats().ecn_reductions >= 3);
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn on_a_link_that_marks_early_the_queue_is_short_and_the_link_full() {
    // A packet in 0.2 ms and 20 ms both ways: a pipe of 100. Reno needs a queue as long. DCTCP's alpha is below its law's 0.13: the segment that
    // leaves as the window is reduced is marked, too, and reduces it once more.
    for (cc, threshold, queue) in [("dctcp", 20, 12.0..20.0), ("prague", 5, 1.0..5.0)] {
        for delayed in [0, 40] {
            let config = TcpConfig { delayed_ack: TimeDelta::from_millis(delayed), ..plain() };
            let mut path = Path::new((cc, &config), (cc, &config));
            path.link = Some((TimeDelta::from_micros(200), threshold));
            path.client.set_unlimited(true);
            path.client.open(path.now);
            path.run(TimeDelta::from_secs(5));
            let begin = (path.client.bytes_acked(), path.found, path.data, path.server.stats().ce_marks);
            path.run(TimeDelta::from_secs(20));
            let used = (path.client.bytes_acked() - begin.0) as f64 / MSS as f64 / 100_000.0;
            let data = (path.data - begin.2) as f64;
            let mean = (path.found - begin.1) as f64 / data;
            let marked = (path.server.stats().ce_marks - begin.3) as f64 / data;
            let alpha = path.alpha();
            let seen =
                format!("{cc}, {delayed} ms: {used} used, queue {mean}, marked {marked}, alpha {alpha}");
            assert!(used > 0.98, "{seen}");
            assert!(queue.contains(&mean), "{seen}");
            assert!((0.03..0.2).contains(&marked) && (0.6..1.5).contains(&(alpha / marked)), "{seen}");
            assert_eq!(path.client.stats().retransmitted_segments, 0, "{seen}");
        }
    }
}

/// The flags of SYN and SYN/ACK, the codepoints of data and of acknowledgements, and the echoes of a mark on segment 1 of four, each
/// acknowledged at once.
fn negotiated(client: (&str, &TcpConfig), server: (&str, &TcpConfig)) -> String {
    let at_once = |config: &TcpConfig| TcpConfig { delayed_ack: TimeDelta::ZERO, ..config.clone() };
    let (left, right) = (at_once(client.1), at_once(server.1));
    let path = Path::new((client.0, &left), (server.0, &right)).marking([1]).send(4);
    let syn = |from_client: bool| {
        let mut syns = path.sent.iter().filter(|s| s.segment.flags.contains(Flags::SYN));
        syns.find(|s| s.from_client == from_client).expect("each side sends one").segment.flags
    };
    let data = path.codepoints(|s| s.segment.len > 0);
    let acks = path.codepoints(|s| s.segment.len == 0 && !s.segment.flags.contains(Flags::SYN));
    let echoes: Vec<Flags> = path.acks().iter().map(|ack| ack.1).collect();
    format!("{:?} {:?} data {data:?} acks {acks:?} echoes {echoes:?}", syn(true), syn(false))
}

#[test]
fn every_pair_of_modes_agrees_on_what_both_can() {
    let modes = [
        ("none", "reno", plain()),
        ("rfc3168", "reno", ecn(EcnFeedback::Auto)),
        ("dctcp echo", "reno", ecn(EcnFeedback::Dctcp)),
        ("dctcp", "dctcp", plain()),
        ("accecn", "reno", ecn(EcnFeedback::Accecn)),
        ("accdctcp", "dctcp", ecn(EcnFeedback::Accecn)),
        ("prague", "prague", plain()),
    ];
    let mut table = String::new();
    for (left, client_cc, client) in &modes {
        for (right, server_cc, server) in &modes {
            let agreed = negotiated((client_cc, client), (server_cc, server));
            table += &format!("{left:>10} > {right:<10}: {agreed}\n");
        }
    }
    insta::assert_snapshot!(table);
}
