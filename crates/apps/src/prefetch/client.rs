//! The virtual clients: each replays its part of a trace, caches what it fetches, and prefetches.
//!
//! A request that the cache can answer takes no time. After each answer, except for images, the client gets a new list of predictions, which
//! replaces the old one. The clients share a predictor, so it learns what the server would learn from all clients. Objects that cannot be
//! cached are fetched each time.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use warpline_core::TimeDelta;

use super::http::{Connection, HINTS};
use super::ppm::{History, Params, Predictor, Url};
use super::server::path;
use super::trace::{Ask, Trace};

/// A prefetching policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// The predictor's parameters.
    pub ppm: Params,
    /// How long to wait after an answer before prefetching.
    pub pause: Duration,
}

impl Policy {
    /// The policy of earlier literature: PPM-2/5, probability 0.25, a second's pause.
    pub const CONSERVATIVE: Policy =
        Policy { ppm: Params { n: 2, w: 5, threshold: 0.25 }, pause: Duration::from_secs(1) };
    /// Prefetches almost everything that may be requested: PPM-2/10, probability 0.00001, without a pause.
    pub const AGGRESSIVE: Policy =
        Policy { ppm: Params { n: 2, w: 10, threshold: 0.00001 }, pause: Duration::ZERO };
}

/// How many times faster than recorded a trace is replayed. Pauses of the policy stay as they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed(f64);

/// The speeds that there are. With a slower one, the end of a long trace could come later than clocks reach.
const SPEEDS: RangeInclusive<f64> = 1e-6..=1e6;

impl Speed {
    /// When a request is made, from the start of the replay, that was recorded at `at`.
    fn due(self, at: TimeDelta) -> Duration {
        Duration::from_secs_f64(at.as_secs_f64() / self.0)
    }
}

impl FromStr for Speed {
    type Err = String;

    /// Reads a factor: "20".
    fn from_str(text: &str) -> Result<Self, String> {
        let factor = text.parse::<f64>().ok().filter(|factor| SPEEDS.contains(factor));
        let wrong = || format!("a speed is a number from {} to {}", SPEEDS.start(), SPEEDS.end());
        factor.map(Speed).ok_or_else(wrong)
    }
}

/// A run's parameters.
#[derive(Clone, Debug)]
pub struct Options {
    /// Server and port for requested objects.
    pub demand: String,
    /// Server and port for prefetched objects.
    pub prefetch: String,
    /// The prefetching policy; `None` for no prefetching.
    pub policy: Option<Policy>,
    /// How fast the trace is replayed.
    pub speed: Speed,
    /// Requests that a connection may have under way at once; 1 for no pipelining.
    pub pipeline: usize,
    /// Whether the server predicts, in a header of its answers, and not the client.
    pub hints: bool,
    /// Requests before this moment of the trace only train the predictor. The replay begins there, with empty caches.
    pub learn: TimeDelta,
}

/// The results, as seen by the clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Requests made.
    pub requests: u64,
    /// Requests that the cache answered.
    pub hits: u64,
    /// Requests that the cache answered because of prefetching.
    pub prefetch_hits: u64,
    /// Share of the requests that the cache answered.
    pub hit_rate: f64,
    /// Mean response time of all requests in seconds; a cache hit takes no time.
    pub mean_response_s: f64,
    /// Mean response time of the requests that went to the server, in seconds.
    pub mean_fetch_s: f64,
    /// Median, 90th and 99th percentile of all response times in seconds.
    pub response_quantiles_s: [f64; 3],
    /// Bytes of requested objects.
    pub demand_bytes: u64,
    /// Bytes prefetched.
    pub prefetch_bytes: u64,
    /// Objects prefetched.
    pub prefetched: u64,
    /// Share of the prefetched objects that were requested after they had arrived.
    pub useful: f64,
    /// Requests that failed.
    pub failures: u64,
    /// Duration in seconds.
    pub seconds: f64,
}

/// One client's cache and list.
#[derive(Debug, Default)]
struct Mind {
    cached: BTreeSet<Url>,
    /// Objects prefetched and not requested yet.
    unused: BTreeSet<Url>,
    list: VecDeque<Url>,
    /// When prefetching may continue.
    not_before: Option<Instant>,
    over: bool,
}

/// One client.
#[derive(Debug, Default)]
struct Client {
    mind: Mutex<Mind>,
    changed: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::disallowed_methods, reason = "this is the edge: real requests take real time")]
fn now() -> Instant {
    Instant::now()
}

/// The counters, and every response time.
#[derive(Debug, Default)]
struct Count {
    report: Report,
    fetches: u64,
    /// Objects prefetched in vain: requested before they had arrived, or never.
    unused: u64,
    responses: Vec<f64>,
}

/// Replays `trace`; `stop` ends it early.
///
/// # Errors
/// If the server cannot be reached at the beginning.
pub fn run(trace: &Trace, options: &Options, stop: &AtomicBool) -> io::Result<Report> {
    // For a wrong address, one error now is better than a thousand later.
    for address in [&options.demand, &options.prefetch] {
        std::net::TcpStream::connect(address)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot connect to {address}: {error}")))?;
    }
    let count = Mutex::new(Count::default());
    let own = options.policy.filter(|_| !options.hints);
    let predictor = own.map(|policy| Mutex::new(taught(trace, policy.ppm, options.learn)));
    let start = now();
    thread::scope(|scope| {
        for asks in &trace.clients {
            let (count, predictor) = (&count, predictor.as_ref());
            scope.spawn(move || {
                let client = Client::default();
                thread::scope(|scope| {
                    let ahead = Connection::new(options.prefetch.clone()).patient();
                    let breaker = ahead.breaker();
                    if options.policy.is_some() {
                        scope.spawn(|| fetch_ahead(&client, ahead, options.pipeline, trace, count, stop));
                    }
                    let mut replay = Replay {
                        client: &client,
                        options,
                        trace,
                        predictor,
                        count,
                        stop,
                        start,
                        under_way: VecDeque::new(),
                        before: None,
                        suggested: None,
                    };
                    replay.all(&asks[before(asks, options.learn)..]);
                    lock(&client.mind).over = true;
                    client.changed.notify_all();
                    // Prefetched objects are no longer needed, and with Nice they may take minutes.
                    breaker.cut();
                });
                lock(count).unused += lock(&client.mind).unused.len() as u64;
            });
        }
    });
    Ok(finish(count.into_inner().unwrap_or_else(PoisonError::into_inner), start))
}

/// Number of requests of a client before `moment`.
fn before(asks: &[Ask], moment: TimeDelta) -> usize {
    asks.partition_point(|ask| ask.at < moment)
}

/// A predictor trained with the requests of the trace before `moment`. Later requests belong to other clients: windows do not span the boundary.
pub fn taught(trace: &Trace, params: Params, moment: TimeDelta) -> Predictor {
    let mut predictor = Predictor::new(params);
    for asks in &trace.clients {
        let mut history = History::default();
        for ask in &asks[..before(asks, moment)] {
            predictor.learn(&mut history, ask.url, trace.objects[ask.url as usize].nature);
        }
    }
    predictor
}

fn finish(mut count: Count, start: Instant) -> Report {
    let mut report = count.report;
    let mean = |sum: f64, count: u64| if count > 0 { sum / count as f64 } else { 0.0 };
    let sum: f64 = count.responses.iter().sum();
    count.responses.sort_by(f64::total_cmp);
    let quantile = |part: f64| {
        let last = count.responses.len().saturating_sub(1);
        count.responses.get((last as f64 * part).round() as usize).copied().unwrap_or(0.0)
    };
    report.mean_response_s = mean(sum, report.requests);
    report.mean_fetch_s = mean(sum, count.fetches);
    report.response_quantiles_s = [quantile(0.5), quantile(0.9), quantile(0.99)];
    report.hit_rate = mean(report.hits as f64, report.requests);
    report.useful = mean(report.prefetched.saturating_sub(count.unused) as f64, report.prefetched);
    report.seconds = now().duration_since(start).as_secs_f64();
    report
}

/// One client's requests.
struct Replay<'a> {
    client: &'a Client,
    options: &'a Options,
    trace: &'a Trace,
    predictor: Option<&'a Mutex<Predictor>>,
    count: &'a Mutex<Count>,
    stop: &'a AtomicBool,
    start: Instant,
    /// Requests without an answer yet, and when each was made.
    under_way: VecDeque<(Url, Instant)>,
    /// The page before the present one, and what the server's last answer to a page suggests, if it is new.
    before: Option<Url>,
    suggested: Option<Vec<Url>>,
}

impl Replay<'_> {
    fn all(&mut self, asks: &[Ask]) {
        let mut connection = Connection::new(self.options.demand.clone());
        let mut history = History::default();
        for (number, ask) in asks.iter().enumerate() {
            let at = ask.at.saturating_sub(self.options.learn);
            let due = self.start + self.options.speed.due(at);
            while now() < due {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                pause(due.saturating_duration_since(now()).min(Duration::from_millis(100)));
            }
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let nature = self.trace.objects[ask.url as usize].nature;
            self.request(&mut connection, ask.url);
            // A page's images are known when it has arrived, and all are there before the next page.
            let goes_on = asks.get(number + 1).is_some_and(|next| next.at == ask.at);
            if !nature.image || !goes_on {
                self.wait(&mut connection, 0);
            }
            let Some(policy) = self.options.policy else { continue };
            let predicted = match self.predictor {
                Some(predictor) => {
                    let mut predictor = lock(predictor);
                    predictor.learn(&mut history, ask.url, nature);
                    if nature.image {
                        continue;
                    }
                    predictor.predict(&history).into_iter().map(|(url, _)| url).collect()
                }
                None if nature.image => continue,
                None => {
                    self.before = Some(ask.url);
                    // The cache suggests nothing.
                    let Some(list) = self.suggested.take() else { continue };
                    list
                }
            };
            let mut mind = lock(&self.client.mind);
            let known = |url: &Url| (*url as usize) < self.trace.objects.len() && !mind.cached.contains(url);
            let fresh: VecDeque<Url> = predicted.into_iter().filter(known).collect();
            mind.list = fresh;
            mind.not_before = Some(now() + policy.pause);
            self.client.changed.notify_all();
        }
    }

    /// Requests an object, unless the cache has it. Waits for answers while as many requests as allowed are under way.
    fn request(&mut self, connection: &mut Connection, url: Url) {
        let mut mind = lock(&self.client.mind);
        let hit = mind.cached.contains(&url);
        let ahead = mind.unused.remove(&url);
        drop(mind);
        let mut count = lock(self.count);
        count.report.prefetch_hits += u64::from(ahead);
        if hit {
            count.report.requests += 1;
            count.report.hits += 1;
            count.responses.push(0.0);
            return;
        }
        drop(count);
        self.wait(connection, self.options.pipeline.max(1) - 1);
        self.under_way.push_back((url, now()));
        let page = !self.trace.objects[url as usize].nature.image;
        let line = if self.options.hints && self.options.policy.is_some() && page {
            let before = self.before.map_or_else(|| "-".to_owned(), |url| url.to_string());
            format!("{}: {before}\r\n", HINTS.1)
        } else {
            String::new()
        };
        if connection.ask(&path(url), &line).is_err() {
            self.fail();
        }
    }

    /// Waits until no more than `left` requests are under way.
    fn wait(&mut self, connection: &mut Connection, left: usize) {
        while self.under_way.len() > left {
            let Ok(answer) = connection.answer() else { return self.fail() };
            let Some((url, began)) = self.under_way.pop_front() else { return };
            let seconds = now().duration_since(began).as_secs_f64();
            let mut count = lock(self.count);
            count.report.requests += 1;
            count.report.demand_bytes += answer.bytes;
            count.fetches += 1;
            count.responses.push(seconds);
            drop(count);
            let nature = self.trace.objects[url as usize].nature;
            if !nature.image {
                self.suggested = Some(answer.hints);
            }
            if nature.cachable {
                lock(&self.client.mind).cached.insert(url);
            }
        }
    }

    /// The connection broke: what was under way has failed.
    fn fail(&mut self) {
        lock(self.count).report.failures += self.under_way.len() as u64;
        self.under_way.clear();
    }
}

/// The next object to fetch ahead. Waits for one if `patient`; `None` if there is none now, or the client is done.
fn next_ahead(
    client: &Client,
    trace: &Trace,
    under_way: &VecDeque<Url>,
    patient: bool,
    stop: &AtomicBool,
) -> Option<Url> {
    let mut mind = lock(&client.mind);
    loop {
        if mind.over || stop.load(Ordering::Relaxed) {
            return None;
        }
        let wait = mind.not_before.map_or(Duration::ZERO, |at| at.saturating_duration_since(now()));
        if wait.is_zero()
            && let Some(url) = mind.list.pop_front()
        {
            let known = mind.cached.contains(&url) || under_way.contains(&url);
            if known || !trace.objects[url as usize].nature.cachable {
                continue;
            }
            return Some(url);
        }
        if !patient {
            return None;
        }
        let wait = if wait.is_zero() { Duration::from_millis(200) } else { wait };
        mind = client.changed.wait_timeout(mind, wait).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Puts a prefetched object into a client's cache.
fn keep(client: &Client, count: &Mutex<Count>, url: Url, bytes: u64) {
    let mut mind = lock(&client.mind);
    let is_new = mind.cached.insert(url);
    if is_new {
        mind.unused.insert(url);
    }
    drop(mind);
    let mut count = lock(count);
    count.report.prefetched += 1;
    count.report.prefetch_bytes += bytes;
    // It was requested meanwhile, and has come by the other connection.
    count.unused += u64::from(!is_new);
}

/// Prefetches what a client's list names, `pipeline` objects at once, until the client is done.
fn fetch_ahead(
    client: &Client,
    mut connection: Connection,
    pipeline: usize,
    trace: &Trace,
    count: &Mutex<Count>,
    stop: &AtomicBool,
) {
    let mut under_way = VecDeque::new();
    loop {
        while under_way.len() < pipeline.max(1) {
            let Some(url) = next_ahead(client, trace, &under_way, under_way.is_empty(), stop) else { break };
            under_way.push_back(url);
            if connection.ask(&path(url), "").is_err() {
                break;
            }
        }
        let Some(&url) = under_way.front() else { return };
        match connection.answer() {
            Ok(answer) => {
                under_way.pop_front();
                keep(client, count, url, answer.bytes);
            }
            Err(_) if lock(&client.mind).over => return,
            Err(_) => {
                lock(count).report.failures += under_way.len() as u64;
                under_way.clear();
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the edge: requests are made at their times")]
fn pause(span: Duration) {
    thread::sleep(span);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefetch::ppm::Nature;
    use crate::prefetch::trace::Object;

    #[test]
    fn a_speed_has_a_range_in_which_every_request_has_its_time() {
        for wrong in ["0", "-1", "1e-300", "1e-12", "1e7", "nan", "inf", "-inf", "fast", ""] {
            let error = wrong.parse::<Speed>().unwrap_err();
            assert_eq!(error, "a speed is a number from 0.000001 to 1000000", "{wrong}");
        }
        let slowest: Speed = "1e-6".parse().unwrap();
        assert!(now().checked_add(slowest.due(TimeDelta::MAX)).is_some());
        let fast: Speed = "20".parse().unwrap();
        assert_eq!(fast.due(TimeDelta::from_secs(10)), Duration::from_millis(500));
    }

    #[test]
    fn what_was_fetched_on_demand_meanwhile_was_prefetched_in_vain() {
        let (client, count) = (Client::default(), Mutex::new(Count::default()));
        lock(&client.mind).cached.insert(1);
        keep(&client, &count, 1, 100);
        keep(&client, &count, 2, 100);
        // Of the two, a request can only meet the second.
        assert_eq!(lock(&client.mind).unused, BTreeSet::from([2]));
        let report = finish(count.into_inner().unwrap(), now());
        assert_eq!((report.prefetched, report.prefetch_bytes, report.useful), (2, 200, 0.5));
    }

    #[test]
    fn requests_before_the_start_train_the_predictor_and_are_not_replayed() {
        let ask = |seconds, url| Ask { at: TimeDelta::from_secs(seconds), url };
        let object = Object { bytes: 100, nature: Nature { image: false, cachable: true } };
        let client = vec![ask(0, 0), ask(1, 1), ask(10, 0), ask(11, 2)];
        let trace = Trace { objects: vec![object; 3], clients: vec![client.clone()] };
        let moment = TimeDelta::from_secs(10);
        assert_eq!(client[before(&client, moment)..], [ask(10, 0), ask(11, 2)]);
        let predict = |predictor: &mut Predictor| {
            let mut history = History::default();
            predictor.learn(&mut history, 0, trace.objects[0].nature);
            predictor.predict(&history).into_iter().map(|(url, _)| url).collect::<Vec<_>>()
        };
        assert_eq!(predict(&mut taught(&trace, Policy::CONSERVATIVE.ppm, moment)), [1]);
        assert!(predict(&mut taught(&trace, Policy::CONSERVATIVE.ppm, TimeDelta::ZERO)).is_empty());
    }
}
