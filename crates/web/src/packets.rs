//! The packets of a run, a window of time at a time: what is read and sent at once is bounded, however long the run was.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use warpline_results::tables::BatchReader;
use warpline_results::{PacketRow, Row as _};

use crate::answer::{Answer, Refusal};

/// The table.
pub(crate) const PACKETS_FILE: &str = "packets.parquet";
/// Its column of time, in whose order it is.
const TIME: &str = "time_ns";
/// Events of a window, at most.
const MOST_ROWS: usize = 20_000;
/// Rows that are looked through for the story of one packet, at most.
const MOST_SEARCHED: usize = 3_000_000;
/// How long before and after a known event the others of a packet are looked for.
const REACH: u64 = 20_000_000_000;
/// The server reads about this many rows in one request to find the next event of a kind. If there is none among them, it tells the page how far it has
/// read, and the page asks again from there.
const MOST_STEPPED: usize = 500_000;
/// Looking back, rows are read a stretch at a time. The first one is so long, in nanoseconds.
const STRETCH: u64 = 1_000_000;
/// While a stretch has no more rows than this, the one before it is twice as long.
const FEW: usize = 50_000;
/// Rows that are decoded at once.
const BATCH: usize = 4096;

/// Which part of a run is wanted.
#[derive(Debug, Deserialize)]
pub(crate) struct Span {
    pub(crate) run: String,
    /// Begin, in nanoseconds of the run.
    from: u64,
    /// End, not included.
    to: u64,
    limit: usize,
}

/// The events of a window, column by column, in order.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Window {
    from: u64,
    /// The events before this time are here.
    until: u64,
    /// The words that `event` and `reason` are numbers of.
    words: Vec<String>,
    time: Vec<u64>,
    link: Vec<u32>,
    event: Vec<usize>,
    reason: Vec<Option<usize>>,
    packet: Vec<u64>,
    flow: Vec<u32>,
    to: Vec<u32>,
    size: Vec<u32>,
    ecn: Vec<u8>,
    seq: Vec<u64>,
    ack: Vec<Option<u64>>,
    len: Vec<u32>,
    waiting: Vec<u32>,
}

fn unreadable(error: impl std::fmt::Display) -> Refusal {
    Refusal::failed(error)
}

/// Goes through the events between two times until `take` says that it has enough.
fn through(run: &Path, (from, to): (u64, u64), mut take: impl FnMut(PacketRow) -> bool) -> Answer<()> {
    if from >= to {
        return Ok(());
    }
    let reader = BatchReader::open_between(&run.join(PACKETS_FILE), BATCH, TIME, (from, to - 1))
        .map_err(unreadable)?;
    let reader = reader.ok_or_else(|| Refusal::missing("no packets were recorded in this run"))?;
    for batch in reader {
        for row in PacketRow::read(&batch.map_err(unreadable)?).map_err(unreadable)? {
            if row.time_ns >= to {
                return Ok(());
            }
            if row.time_ns >= from && !take(row) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The events of a window of a run.
///
/// # Errors
/// If no packets were recorded, or the table cannot be read.
pub(crate) fn window(run: &Path, span: &Span) -> Answer<Window> {
    let limit = span.limit.clamp(1, MOST_ROWS);
    let mut rows: Vec<PacketRow> = Vec::new();
    let mut until = span.to;
    through(run, (span.from, span.to), |row| {
        if rows.len() < limit {
            rows.push(row);
            return true;
        }
        // Events of one time stay together, unless there are more of them than a window holds.
        until = row.time_ns;
        let whole = rows.partition_point(|other| other.time_ns < until);
        if whole > 0 {
            rows.truncate(whole);
        } else {
            until += 1;
        }
        false
    })?;
    let mut words: BTreeMap<String, usize> = BTreeMap::new();
    let mut list = Vec::new();
    let mut word = |text: &str| {
        *words.entry(text.to_owned()).or_insert_with(|| {
            list.push(text.to_owned());
            list.len() - 1
        })
    };
    let mut window = Window { from: span.from, until, ..Window::default() };
    for row in rows {
        window.time.push(row.time_ns);
        window.link.push(row.link);
        window.event.push(word(&row.event));
        window.reason.push(row.reason.as_deref().map(&mut word));
        window.packet.push(row.packet);
        window.flow.push(row.flow);
        window.to.push(row.to);
        window.size.push(row.size);
        window.ecn.push(row.ecn);
        window.seq.push(row.seq);
        window.ack.push(row.ack);
        window.len.push(row.len);
        window.waiting.push(row.backlog_packets);
    }
    window.words = list;
    Ok(window)
}

/// Which event is looked for: the first one after a time, or the last one before it.
#[derive(Debug, Deserialize)]
pub(crate) struct Sought {
    pub(crate) run: String,
    /// In nanoseconds of the run.
    time: u64,
    back: bool,
    /// The words of which it has one, with commas between them; any if none are said.
    events: Option<String>,
    /// The packet that it is about; any if none is said.
    packet: Option<u64>,
}

impl Sought {
    fn is(&self, row: &PacketRow) -> bool {
        let is_said = |words: &str| words.split(',').any(|word| row.event == word);
        self.packet.is_none_or(|packet| row.packet == packet) && self.events.as_deref().is_none_or(is_said)
    }
}

/// When an event happens that was looked for.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Found {
    /// None if there is none as far as was looked.
    time: Option<u64>,
    /// What happens up to this time is known; looking back, what happens from this time on.
    looked: u64,
}

/// Looks for an event, in a part of the run.
///
/// # Errors
/// As those of [`window`].
pub(crate) fn find(run: &Path, sought: &Sought) -> Answer<Found> {
    if sought.back { find_before(run, sought, MOST_STEPPED) } else { find_after(run, sought, MOST_STEPPED) }
}

fn find_after(run: &Path, sought: &Sought, most: usize) -> Answer<Found> {
    let mut found = Found { time: None, looked: u64::MAX };
    let (mut searched, mut last) = (0, sought.time);
    through(run, (sought.time.saturating_add(1), u64::MAX), |row| {
        // Events of one time stay together.
        if searched >= most && row.time_ns > last {
            found.looked = last;
            return false;
        }
        (searched, last) = (searched + 1, row.time_ns);
        if sought.is(&row) {
            found = Found { time: Some(last), looked: last };
        }
        found.time.is_none()
    })?;
    Ok(found)
}

fn find_before(run: &Path, sought: &Sought, most: usize) -> Answer<Found> {
    let mut found = Found { time: None, looked: sought.time };
    let (mut searched, mut reach) = (0, STRETCH);
    while found.time.is_none() && found.looked > 0 && searched < most {
        let begin = found.looked.saturating_sub(reach);
        let mut count = 0;
        through(run, (begin, found.looked), |row| {
            count += 1;
            if sought.is(&row) {
                found.time = Some(row.time_ns);
            }
            true
        })?;
        found.looked = begin;
        searched += count;
        if count <= FEW {
            reach = reach.saturating_mul(2);
        }
    }
    Ok(found)
}

/// Whose story is wanted: a packet, and a time at which something happened to it.
#[derive(Debug, Deserialize)]
pub(crate) struct Whose {
    pub(crate) run: String,
    packet: u64,
    time: u64,
}

/// An event of a packet's story.
#[derive(Debug, Serialize)]
struct Step {
    time: u64,
    link: u32,
    event: String,
    reason: Option<String>,
    queued_ns: Option<u64>,
    waiting: u32,
}

/// What happened to a packet.
#[derive(Debug, Serialize)]
pub(crate) struct Story {
    packet: u64,
    flow: u32,
    to: u32,
    protocol: String,
    size: u32,
    seq: u64,
    len: u32,
    ack: Option<u64>,
    flags: Option<String>,
    steps: Vec<Step>,
    /// The first acknowledgement that covers it, of the data that it brought.
    acknowledged: Option<Reply>,
    /// The packet that brought the same bytes again.
    again: Option<Reply>,
}

/// A packet that another one led to.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Reply {
    time: u64,
    packet: u64,
    ack: Option<u64>,
}

/// The events of a packet around a known one of them, of which at most this many rows are looked through at a time.
fn events_of(run: &Path, whose: &Whose, most: usize) -> Answer<Vec<PacketRow>> {
    let mut reach = REACH;
    loop {
        let begin = whose.time.saturating_sub(reach);
        let mut rows: Vec<PacketRow> = Vec::new();
        let (mut searched, mut at) = (0, begin);
        through(run, (begin, whose.time.saturating_add(REACH)), |row| {
            searched += 1;
            at = row.time_ns;
            let last = rows.last().map_or(whose.time, |row| row.time_ns.max(whose.time));
            let over = at > last.saturating_add(REACH / 4);
            if row.packet == whose.packet {
                rows.push(row);
            }
            searched < most && !over
        })?;
        // In a fast run there are so many rows before the known event that it was not reached: then from half as far back as they go.
        if searched < most || at > whose.time || reach == 0 {
            return Ok(rows);
        }
        reach = (at - begin) / 2;
    }
}

/// The story of a packet.
///
/// # Errors
/// As those of [`window`]; or if nothing is known of the packet at that time.
pub(crate) fn story(run: &Path, whose: &Whose) -> Answer<Story> {
    let rows = events_of(run, whose, MOST_SEARCHED)?;
    let first = rows
        .first()
        .ok_or_else(|| Refusal::missing("nothing is recorded of this packet around that time"))?
        .clone();
    let last = rows.last().map_or(0, |row| row.time_ns);
    let (mut acknowledged, mut again) = (None, None);
    let end = first.seq + u64::from(first.len);
    let lost = rows.iter().any(|row| row.event == "drop");
    let mut searched = 0;
    if first.len > 0 && first.protocol == "tcp" {
        let arrived = rows.iter().rev().find(|row| row.event == "deliver").map(|row| row.time_ns);
        // The ends of a simulated connection have numbers next to each other; those of a real one are nodes.
        let is_back = |row: &PacketRow| match first.reply {
            Some(reply) => row.flow == reply && row.to != first.to && row.protocol == "tcp",
            None => row.flow == first.flow && row.to == first.to ^ 1,
        };
        through(run, (last, last.saturating_add(REACH)), |row| {
            searched += 1;
            let reply = Reply { time: row.time_ns, packet: row.packet, ack: row.ack };
            let other = row.packet != first.packet && row.event != "deliver";
            if other
                && is_back(&row)
                && row.ack.is_some_and(|ack| ack >= end)
                && acknowledged.is_none()
                && !lost
                && arrived.is_some()
            {
                acknowledged = Some(reply);
            } else if other
                && row.flow == first.flow
                && row.to == first.to
                && row.seq <= first.seq
                && row.seq + u64::from(row.len) > first.seq
                && again.is_none()
            {
                again = Some(reply);
            }
            let settled = if lost { again.is_some() } else { acknowledged.is_some() };
            searched < MOST_SEARCHED && !settled
        })?;
    }
    let step = |row: &PacketRow| Step {
        time: row.time_ns,
        link: row.link,
        event: row.event.to_string(),
        reason: row.reason.as_deref().map(str::to_owned),
        queued_ns: row.queued_ns,
        waiting: row.backlog_packets,
    };
    Ok(Story {
        packet: first.packet,
        flow: first.flow,
        to: first.to,
        protocol: first.protocol.to_string(),
        size: first.size,
        seq: first.seq,
        len: first.len,
        ack: first.ack,
        flags: first.flags.clone(),
        steps: rows.iter().map(step).collect(),
        acknowledged,
        again,
    })
}

/// How many events are recorded; none where packets were not.
///
/// # Errors
/// If the table cannot be read.
pub(crate) fn count(run: &Path) -> Answer<Option<u64>> {
    BatchReader::rows_of(&run.join(PACKETS_FILE)).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use warpline_lab::run::{RunOptions, run};
    use warpline_scenario::Scenario;

    use super::*;

    const TEXT: &str = "duration = \"8s\"\n[[link]]\nbetween = [\"a\", \"r\"]\nrate = \"20Mbit/s\"\ndelay = \"5ms\"\nrecord = [\"packets\"]\n\
        [[link]]\nbetween = [\"r\", \"b\"]\nrate = \"2Mbit/s\"\ndelay = \"5ms\"\nqueue = \"10p\"\nrecord = [\"packets\"]\n\
        [[flow]]\nfrom = \"a\"\nto = \"b\"\ncc = \"reno\"\n";

    fn recorded() -> tempfile::TempDir {
        recorded_of(TEXT)
    }

    fn recorded_of(text: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let scenario = Scenario::from_toml("test", text, &[]).unwrap();
        let options = RunOptions { out: Some(root.path().join("run")), ..RunOptions::default() };
        run(&scenario, &options, &mut |_| warpline_net::Control::Continue).unwrap();
        root
    }

    fn span(from: u64, to: u64, limit: usize) -> Span {
        Span { run: String::new(), from, to, limit }
    }

    #[test]
    fn windows_follow_each_other_without_gap_or_overlap() {
        let root = recorded();
        let run = root.path().join("run");
        let all = count(&run).unwrap().unwrap();
        let (mut at, mut found, mut before) = (0, 0, 0);
        while at < 9_000_000_000 {
            let window = window(&run, &span(at, 9_000_000_000, 700)).unwrap();
            assert!(window.until > at && window.time.len() <= 700);
            assert!(window.time.iter().all(|time| (at..window.until).contains(time)));
            assert!(window.time.is_sorted() && window.time.first().is_none_or(|first| *first >= before));
            before = window.time.last().copied().unwrap_or(before);
            found += window.time.len() as u64;
            at = window.until;
        }
        assert_eq!(found, all);
        assert!(all > 5000, "{all}");
        // From the middle, as after a jump.
        let late = window(&run, &span(5_000_000_000, 5_100_000_000, 20_000)).unwrap();
        assert!(!late.time.is_empty() && late.until == 5_100_000_000);
    }

    #[test]
    fn a_packet_is_followed_to_its_acknowledgement_or_to_its_loss() {
        let root = recorded();
        let run = root.path().join("run");
        let window = window(&run, &span(0, 8_000_000_000, 20_000)).unwrap();
        let event = |word: &str| window.words.iter().position(|own| own == word).unwrap();
        let drop = window.event.iter().position(|own| *own == event("drop")).unwrap();
        let story_of = |row: usize| {
            story(&run, &Whose { run: String::new(), packet: window.packet[row], time: window.time[row] })
                .unwrap()
        };
        let lost = story_of(drop);
        assert_eq!(lost.steps.last().unwrap().reason.as_deref(), Some("overflow"));
        assert_eq!(lost.acknowledged, None);
        assert!(lost.again.unwrap().time > window.time[drop]);
        let data = (0..window.time.len())
            .find(|&row| {
                window.len[row] > 0 && window.link[row] == 2 && window.event[row] == event("deliver")
            })
            .unwrap();
        let whole = story_of(data);
        let events: Vec<&str> = whole.steps.iter().map(|step| step.event.as_str()).collect();
        assert_eq!(events, ["enqueue", "transmit", "deliver", "enqueue", "transmit", "deliver"]);
        let reply = whole.acknowledged.unwrap();
        assert!(reply.time >= whole.steps[5].time && reply.ack.unwrap() >= whole.seq + u64::from(whole.len));
        assert_eq!(
            story(&run, &Whose { run: String::new(), packet: u64::MAX, time: 0 }).unwrap_err().status,
            404
        );
    }

    #[test]
    fn a_real_packet_is_followed_to_its_acknowledgement_too() {
        let real = "[[host]]\nname = \"a\"\nendpoint = \"stack:smoltcp\"\n[[host]]\nname = \"b\"\nendpoint = \"stack:smoltcp\"\n";
        let root = recorded_of(&format!("{TEXT}{real}"));
        let run = root.path().join("run");
        let window = window(&run, &span(0, 8_000_000_000, 20_000)).unwrap();
        let event = |word: &str| window.words.iter().position(|own| own == word).unwrap();
        let story_of = |row: usize| {
            let whose = Whose { run: String::new(), packet: window.packet[row], time: window.time[row] };
            story(&run, &whose).unwrap()
        };
        // The stream begins at byte 1, behind the SYN.
        let data = |row: &usize| window.len[*row] > 0 && window.event[*row] == event("deliver");
        let first = (0..window.time.len()).find(data).unwrap();
        assert_eq!(window.seq[first], 1);
        let told = story_of(first);
        let reply = told.acknowledged.unwrap();
        assert!(reply.time >= told.steps.last().unwrap().time && reply.ack.unwrap() > told.seq);
        assert_eq!((told.protocol.as_str(), told.again), ("tcp", None));
        let drop = window.event.iter().position(|own| *own == event("drop")).unwrap();
        assert!(story_of(drop).again.unwrap().time > window.time[drop]);
    }

    #[test]
    fn a_packet_is_found_behind_many_others() {
        let root = recorded();
        let run = root.path().join("run");
        let window = window(&run, &span(0, 8_000_000_000, 20_000)).unwrap();
        let last = window.time.len() - 1;
        assert!(last > 5000, "{last}");
        let whose = Whose { run: String::new(), packet: window.packet[last], time: window.time[last] };
        let found = events_of(&run, &whose, 1000).unwrap();
        assert!(found.iter().any(|row| row.time_ns == whose.time && row.packet == whose.packet));
    }

    #[test]
    fn an_event_is_found_however_far_away_it_is() {
        let root = recorded();
        let run = root.path().join("run");
        let window = window(&run, &span(0, 8_000_000_000, 20_000)).unwrap();
        let drop = window.words.iter().position(|own| own == "drop").unwrap();
        let drops: Vec<usize> = (0..window.time.len()).filter(|&row| window.event[row] == drop).collect();
        let (first, last) = (drops[0], drops[drops.len() - 1]);
        assert!(first > 40 && last > first + 400, "{first} {last}");
        // A few rows at a time, from where the search before has ended.
        let find = |mut time: u64, back: bool, packet: Option<u64>| loop {
            let over = if back { 0 } else { u64::MAX };
            let events = Some("mark,drop".to_owned());
            let sought = Sought { run: String::new(), time, back, events, packet };
            let found = if back { find_before(&run, &sought, 20) } else { find_after(&run, &sought, 20) };
            let Found { time: found, looked } = found.unwrap();
            if found.is_some() || looked == over {
                break found;
            }
            assert!(if back { looked < time } else { looked > time }, "{time} {looked}");
            time = looked;
        };
        let (begin, end) = (window.time[first], window.time[last]);
        assert_eq!(find(0, false, None), Some(begin));
        assert_eq!(find(0, false, Some(window.packet[last])), Some(end));
        assert_eq!(find(window.until, true, None), Some(end));
        assert_eq!(find(window.until, true, Some(window.packet[first])), Some(begin));
        assert_eq!(find(begin, true, None), None);
        assert_eq!(find(0, false, Some(u64::MAX)), None);
    }

    #[test]
    fn a_run_without_packets_says_so() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(window(root.path(), &span(0, 1, 1)).unwrap_err().status, 404);
        assert_eq!(count(root.path()).unwrap(), None);
    }
}
