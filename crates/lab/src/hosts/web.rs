//! Web sessions: pages with think times in between; the objects of a page are fetched over a few connections at once.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use warpline_core::{Stream, TimeDelta, Timestamp, float};
use warpline_scenario::{Distribution, Size, Time, WebModel};

/// What the sessions want to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebRequest {
    /// Wait until this instant.
    Wait(Timestamp),
    /// Fetch an object of this size for a session.
    Fetch { bytes: u64, session: u32 },
}

#[derive(Clone, Copy, Debug, Default)]
struct Session {
    pages_left: u64,
    objects_left: u64,
    /// Objects being fetched.
    active: u32,
}

/// All sessions of a flow.
#[derive(Debug)]
pub(crate) struct Sessions {
    model: WebModel,
    /// Bytes of a request.
    pub(crate) request: u64,
    next_session: Option<Timestamp>,
    sessions: Vec<Session>,
    free: Vec<u32>,
    /// Sessions that can fetch an object now; one may be listed more than once.
    ready: VecDeque<u32>,
    thinking: BinaryHeap<Reverse<(Timestamp, u32)>>,
}

/// Draws a positive value of a distribution.
fn draw<T: Copy>(distribution: &Distribution<T>, value: impl Fn(T) -> f64, stream: &mut Stream) -> f64 {
    // If the mean is beyond the cut-off, drawing again might never end, so stop after a hundred draws.
    let below = |max: Option<T>, draw: &mut dyn FnMut(&mut Stream) -> f64, stream: &mut Stream| {
        let max = max.map_or(f64::INFINITY, &value);
        (0..100).map(|_| draw(stream)).find(|&x| x <= max).unwrap_or(max)
    };
    match *distribution {
        Distribution::Constant { value: x } => value(x),
        Distribution::Uniform { min, max } => stream.range(value(min), value(max)),
        Distribution::Exponential { mean } => stream.exponential(value(mean)),
        Distribution::Pareto { mean, shape, max } => {
            below(max, &mut |stream| stream.pareto(value(mean), shape), stream)
        }
        Distribution::Lognormal { median, sigma, max } => {
            below(max, &mut |stream| stream.log_normal(float::ln(value(median)), sigma), stream)
        }
    }
}

impl Sessions {
    pub(crate) fn new(model: WebModel, request: u64) -> Self {
        Sessions {
            model,
            request,
            next_session: None,
            sessions: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            thinking: BinaryHeap::new(),
        }
    }

    fn count(distribution: &Distribution<f64>, stream: &mut Stream) -> u64 {
        draw(distribution, |x| x, stream).round().max(1.0) as u64
    }

    pub(crate) fn poll(&mut self, now: Timestamp, stream: &mut Stream) -> WebRequest {
        let gap = |rate: f64, stream: &mut Stream| TimeDelta::from_secs_f64(stream.exponential(1.0 / rate));
        let rate = self.model.session_rate;
        let next = match self.next_session {
            Some(next) => next,
            // The interval before the first session is drawn like all others.
            None => now + gap(rate, stream),
        };
        self.next_session = Some(next);
        if now >= next {
            self.next_session = Some(next + gap(rate, stream));
            let session =
                Session { pages_left: Self::count(&self.model.pages, stream), objects_left: 0, active: 0 };
            let id = self.free.pop().unwrap_or_else(|| {
                self.sessions.push(Session::default());
                self.sessions.len() as u32 - 1
            });
            self.sessions[id as usize] = session;
            self.open_page(id, stream);
        }
        while let Some(&Reverse((until, id))) = self.thinking.peek()
            && until <= now
        {
            self.thinking.pop();
            self.open_page(id, stream);
        }
        while let Some(&id) = self.ready.front() {
            let session = &mut self.sessions[id as usize];
            if session.objects_left == 0 || session.active >= self.model.connections {
                self.ready.pop_front();
                continue;
            }
            session.objects_left -= 1;
            session.active += 1;
            let bytes = draw(&self.model.object_size, |size: Size| size.0.0 as f64, stream).max(1.0) as u64;
            return WebRequest::Fetch { bytes, session: id };
        }
        let thinking = self.thinking.peek().map_or(Timestamp::NEVER, |&Reverse((until, _))| until);
        WebRequest::Wait(thinking.min(self.next_session.unwrap_or(Timestamp::NEVER)))
    }

    fn open_page(&mut self, id: u32, stream: &mut Stream) {
        let session = &mut self.sessions[id as usize];
        session.pages_left -= 1;
        session.objects_left = Self::count(&self.model.objects, stream);
        self.ready.push_back(id);
    }

    /// An object of a session has been fetched. Returns when to poll.
    pub(crate) fn on_done(&mut self, now: Timestamp, id: u32, stream: &mut Stream) -> Timestamp {
        let Some(session) = self.sessions.get_mut(id as usize) else { return Timestamp::NEVER };
        session.active -= 1;
        if session.objects_left > 0 {
            self.ready.push_back(id);
            return now;
        }
        if session.active > 0 {
            return Timestamp::NEVER;
        }
        if session.pages_left == 0 {
            self.free.push(id);
            return Timestamp::NEVER;
        }
        let think = draw(&self.model.think_time, |time: Time| time.0.as_secs_f64(), stream);
        let until = now + TimeDelta::from_secs_f64(think);
        self.thinking.push(Reverse((until, id)));
        until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_core::{Bytes, Streams};

    fn model() -> WebModel {
        WebModel {
            session_rate: 2.0,
            pages: Distribution::Constant { value: 3.0 },
            objects: Distribution::Constant { value: 5.0 },
            object_size: Distribution::Pareto {
                mean: Size(Bytes(12_000)),
                shape: 1.2,
                max: Some(Size(Bytes(50_000))),
            },
            think_time: Distribution::Constant { value: Time(TimeDelta::from_secs(1)) },
            connections: 2,
        }
    }

    #[test]
    fn a_session_fetches_every_object_over_its_own_connections() {
        let mut stream = Streams::new(3).stream("web");
        let mut sessions = Sessions::new(model(), 300);
        let (mut now, mut fetched) = (Timestamp::ZERO, 0u32);
        // Every object takes 100 ms.
        let mut under_way: VecDeque<(Timestamp, u32)> = VecDeque::new();
        while now < Timestamp::from_secs(500) {
            while let Some(&(done, id)) = under_way.front()
                && done <= now
            {
                under_way.pop_front();
                sessions.on_done(now, id, &mut stream);
            }
            match sessions.poll(now, &mut stream) {
                WebRequest::Wait(until) => {
                    now = until.min(under_way.front().map_or(Timestamp::NEVER, |&(done, _)| done));
                }
                WebRequest::Fetch { bytes, session } => {
                    assert!((1..=50_000).contains(&bytes));
                    fetched += 1;
                    under_way.push_back((now + TimeDelta::from_millis(100), session));
                    let mine = under_way.iter().filter(|&&(_, id)| id == session).count();
                    assert!(mine <= 2, "{mine} at once");
                }
            }
        }
        // 500 s at 2 sessions a second, each of 3 pages with 5 objects.
        assert!((f64::from(fetched) / 15_000.0 - 1.0).abs() < 0.1, "{fetched}");
    }
}
