//! Traces: which client requests which object, and when.

use std::collections::BTreeMap;

use warpline_core::{Stream, TimeDelta};
use warpline_scenario::access_log::Request;

use super::ppm::{Nature, Url};

/// An object on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its size in bytes.
    pub bytes: u64,
    /// Its properties, judged by its name.
    pub nature: Nature,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Time from the start of the trace.
    pub at: TimeDelta,
    /// The requested object.
    pub url: Url,
}

/// Requests of virtual clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The objects, by number.
    pub objects: Vec<Object>,
    /// Each client's requests, by time.
    pub clients: Vec<Vec<Ask>>,
}

/// Parameters of a generated trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Synthetic {
    /// Virtual clients.
    pub clients: usize,
    /// Duration.
    pub duration: TimeDelta,
    /// Pages of the site. The first page of a session follows a Zipf distribution; the next ones follow the links of the page.
    pub pages: u32,
    /// Mean time between two pages of a client, exponentially distributed.
    pub think: TimeDelta,
    /// Most images in a page; the number is uniformly distributed from 0 to this.
    pub images: u32,
    /// Mean size of an object in bytes; Pareto with shape 1.2, at most a hundred times the mean.
    pub mean_bytes: f64,
}

/// Links of a page. The first is followed half the time, the second a quarter of the time, and so on.
const LINKS: u32 = 4;

impl Trace {
    /// The requests of a log. Its clients are spread over `clients` virtual clients in order of appearance.
    pub fn from_log(requests: &[Request], clients: usize) -> Self {
        let mut urls: BTreeMap<&str, Url> = BTreeMap::new();
        let mut people: BTreeMap<&str, usize> = BTreeMap::new();
        let mut trace = Trace { objects: Vec::new(), clients: vec![Vec::new(); clients.max(1)] };
        for request in requests.iter().filter(|request| !request.url.is_empty()) {
            let url = *urls.entry(&request.url).or_insert(trace.objects.len() as Url);
            if url as usize == trace.objects.len() {
                trace.objects.push(Object { bytes: 0, nature: Nature::of(&request.url) });
            }
            // A truncated response, or one of "not modified", is smaller than the object.
            let object = &mut trace.objects[url as usize];
            object.bytes = object.bytes.max(request.bytes);
            let next = people.len();
            let person = *people.entry(&request.client).or_insert(next);
            let count = trace.clients.len();
            trace.clients[person % count].push(Ask { at: request.start, url });
        }
        trace
    }

    /// A generated trace, the same for the same stream.
    pub fn synthetic(shape: &Synthetic, stream: &mut Stream) -> Self {
        let pages = shape.pages.max(1);
        let size = |stream: &mut Stream| {
            stream.pareto(shape.mean_bytes, 1.2).min(100.0 * shape.mean_bytes).max(64.0) as u64
        };
        let mut objects = Vec::new();
        let mut site: Vec<(Url, Vec<Url>, Vec<u32>)> = Vec::new();
        for _ in 0..pages {
            let mut object = |image, stream: &mut Stream| {
                objects.push(Object { bytes: size(stream), nature: Nature { image, cachable: true } });
                objects.len() as Url - 1
            };
            let page = object(false, stream);
            let images = (0..below(stream, shape.images + 1)).map(|_| object(true, stream)).collect();
            let links = (0..LINKS).map(|_| below(stream, pages)).collect();
            site.push((page, images, links));
        }
        let weights: f64 = (1..=pages).map(|rank| 1.0 / f64::from(rank)).sum();
        let entrance = |stream: &mut Stream| {
            let mut left = stream.range(0.0, weights);
            (1..=pages)
                .find(|&rank| {
                    left -= 1.0 / f64::from(rank);
                    left <= 0.0
                })
                .unwrap_or(pages)
                - 1
        };
        let mut clients = Vec::new();
        for _ in 0..shape.clients.max(1) {
            let mut asks = Vec::new();
            let mut now = stream.exponential(shape.think.as_secs_f64());
            let mut page = entrance(stream);
            while now < shape.duration.as_secs_f64() {
                let at = TimeDelta::from_secs_f64(now);
                let (own, images, links) = &site[page as usize];
                asks.push(Ask { at, url: *own });
                asks.extend(images.iter().map(|&url| Ask { at, url }));
                now += stream.exponential(shape.think.as_secs_f64());
                let link = (0..LINKS).find(|_| stream.range(0.0, 1.0) < 0.5);
                page = link.map_or_else(|| entrance(stream), |link| links[link as usize]);
            }
            clients.push(asks);
        }
        Trace { objects, clients }
    }

    /// Requests of all clients.
    pub fn len(&self) -> usize {
        self.clients.iter().map(Vec::len).sum()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Time from its start to its last request.
    pub fn duration(&self) -> TimeDelta {
        self.clients.iter().flatten().map(|ask| ask.at).max().unwrap_or(TimeDelta::ZERO)
    }
}

/// A whole number below `end`, uniformly distributed.
fn below(stream: &mut Stream, end: u32) -> u32 {
    (stream.range(0.0, f64::from(end)) as u32).min(end.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_core::Streams;

    #[test]
    fn a_logs_clients_are_spread_and_keep_their_order() {
        let log = "\
10.0 0 a TCP_MISS/200 100 GET http://x/1.html
11.0 0 b TCP_MISS/200 200 GET http://x/2.gif
12.0 0 a TCP_HIT/304 50 GET http://x/1.html
13.0 0 c TCP_MISS/200 70 GET http://x/3?q
";
        let trace = Trace::from_log(&warpline_scenario::access_log::requests(log).unwrap(), 2);
        let urls: Vec<Vec<Url>> =
            trace.clients.iter().map(|asks| asks.iter().map(|ask| ask.url).collect()).collect();
        assert_eq!(urls, [vec![0, 0, 2], vec![1]]);
        assert_eq!(trace.objects[0].bytes, 100);
        assert!(trace.objects[1].nature.image && !trace.objects[2].nature.cachable);
        assert_eq!((trace.len(), trace.duration()), (4, TimeDelta::from_secs(3)));
    }

    #[test]
    fn a_generated_trace_depends_on_the_seed_alone_and_has_the_right_length() {
        let shape = Synthetic {
            clients: 4,
            duration: TimeDelta::from_secs(1000),
            pages: 50,
            think: TimeDelta::from_secs(5),
            images: 4,
            mean_bytes: 8000.0,
        };
        let make = |seed| Trace::synthetic(&shape, &mut Streams::new(seed).stream("trace"));
        let trace = make(1);
        assert_eq!(trace, make(1));
        assert_ne!(trace, make(2));
        // Four clients, a page every five seconds, with two images on average.
        assert!((1800..3200).contains(&trace.len()), "{}", trace.len());
        assert!(trace.duration() < shape.duration);
        assert!(trace.clients.iter().all(|asks| asks.is_sorted_by_key(|ask| ask.at)));
    }
}
