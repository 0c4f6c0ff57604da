//! Prediction by partial matching, PPM-n/w: which URLs will be requested soon after the last requests.
//!
//! Source: TCP Nice (OSDI 2002) section 6.1, after Cleary and Witten (1984). A context is a client's last 1 to n requests, images left out.
//! For each occurrence of a context, the URLs of its window count once: the requests after it up to the w-th that is not for an image,
//! and the images in between. The probability of a URL is its count divided by the context's, for the longest context that it was seen
//! after. Generated responses (queries, scripts) are neither cached nor predicted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A URL, by number.
pub type Url = u32;

/// Properties of a URL, judged by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nature {
    /// Whether it is an image; images are not part of a context.
    pub image: bool,
    /// Whether it can be cached, and so prefetched.
    pub cachable: bool,
}

impl Nature {
    /// Judges a URL by its name.
    pub fn of(url: &str) -> Self {
        let path = url.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
        let last = path.rsplit('/').next().unwrap_or_default();
        let suffix = last.rsplit_once('.').map_or("", |(_, suffix)| suffix);
        let image = matches!(suffix, "gif" | "jpg" | "jpeg" | "png" | "ico" | "bmp" | "webp" | "svg");
        let program = matches!(suffix, "cgi" | "php" | "asp" | "aspx" | "jsp" | "pl" | "exe" | "dll")
            || path.contains("/cgi-bin/");
        Nature { image, cachable: !program && !url.contains('?') }
    }
}

/// Parameters of the predictor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Longest context: n.
    pub n: usize,
    /// Requests in the window: w.
    pub w: usize,
    /// Smallest probability of a prediction.
    pub threshold: f64,
}

#[derive(Clone, Debug, Default)]
struct Context {
    seen: u32,
    followed_by: BTreeMap<Url, u32>,
}

/// A context whose window is still open.
#[derive(Clone, Debug)]
struct Open {
    context: Vec<Url>,
    left: usize,
    counted: BTreeSet<Url>,
}

/// One client's history.
#[derive(Clone, Debug, Default)]
pub struct History {
    recent: VecDeque<Url>,
    open: Vec<Open>,
}

/// A predictor trained with the requests of all clients.
#[derive(Clone, Debug)]
pub struct Predictor {
    params: Params,
    contexts: BTreeMap<Vec<Url>, Context>,
}

impl Predictor {
    /// An untrained predictor.
    pub fn new(params: Params) -> Self {
        Predictor { params, contexts: BTreeMap::new() }
    }

    /// Learns from a client's request for a URL.
    pub fn learn(&mut self, history: &mut History, url: Url, nature: Nature) {
        if nature.cachable {
            for open in &mut history.open {
                if open.counted.insert(url) {
                    let context = self.contexts.entry(open.context.clone()).or_default();
                    *context.followed_by.entry(url).or_default() += 1;
                }
            }
        }
        if nature.image {
            return;
        }
        history.open.retain_mut(|open| {
            open.left -= 1;
            open.left > 0
        });
        history.recent.push_back(url);
        if history.recent.len() > self.params.n {
            history.recent.pop_front();
        }
        if self.params.w == 0 {
            return;
        }
        for length in 1..=history.recent.len() {
            let context: Vec<Url> =
                history.recent.iter().skip(history.recent.len() - length).copied().collect();
            self.contexts.entry(context.clone()).or_default().seen += 1;
            history.open.push(Open { context, left: self.params.w, counted: BTreeSet::new() });
        }
    }

    /// Predicts what the client will request soon, the most probable first, and equally probable URLs by their numbers.
    pub fn predict(&self, history: &History) -> Vec<(Url, f64)> {
        let mut found: BTreeMap<Url, f64> = BTreeMap::new();
        for length in (1..=history.recent.len()).rev() {
            let context: Vec<Url> =
                history.recent.iter().skip(history.recent.len() - length).copied().collect();
            let Some(context) = self.contexts.get(&context) else { continue };
            for (&url, &count) in &context.followed_by {
                found.entry(url).or_insert(f64::from(count) / f64::from(context.seen.max(1)));
            }
        }
        let mut all: Vec<_> = found.into_iter().filter(|&(_, part)| part >= self.params.threshold).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        all
    }
}

impl Predictor {
    /// What it predicts after each context that it has seen, by the context.
    pub fn lists(&self) -> impl Iterator<Item = (&[Url], Vec<Url>)> {
        self.contexts.keys().map(|context| {
            let history = History { recent: context.iter().copied().collect(), open: Vec::new() };
            (&context[..], self.predict(&history).into_iter().map(|(url, _)| url).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Nature = Nature { image: false, cachable: true };
    const IMAGE: Nature = Nature { image: true, cachable: true };
    const PROGRAM: Nature = Nature { image: false, cachable: false };

    fn predictor(n: usize, w: usize, threshold: f64) -> Predictor {
        Predictor::new(Params { n, w, threshold })
    }

    fn walk(predictor: &mut Predictor, pages: &[Url]) -> History {
        let mut history = History::default();
        pages.iter().for_each(|&url| predictor.learn(&mut history, url, PAGE));
        history
    }

    #[test]
    fn a_url_is_predicted_with_the_share_of_its_occurrences() {
        let mut predictor = predictor(1, 1, 0.0);
        walk(&mut predictor, &[1, 2]);
        walk(&mut predictor, &[1, 2]);
        walk(&mut predictor, &[1, 3]);
        let at_one = walk(&mut predictor, &[1]);
        // 1 came four times, and something followed three of them.
        assert_eq!(predictor.predict(&at_one), [(2, 0.5), (3, 0.25)]);
    }

    #[test]
    fn the_window_ends_after_the_wth_request() {
        let mut two = predictor(1, 2, 0.0);
        walk(&mut two, &[1, 2, 3, 4]);
        let history = walk(&mut two, &[1]);
        let urls: Vec<Url> = two.predict(&history).into_iter().map(|(url, _)| url).collect();
        assert_eq!(urls, [2, 3]);
    }

    #[test]
    fn images_are_predicted_but_are_not_part_of_a_context() {
        let mut predictor = predictor(1, 1, 0.0);
        let mut history = History::default();
        for (url, nature) in [(1, PAGE), (10, IMAGE), (11, IMAGE), (2, PAGE), (12, IMAGE)] {
            predictor.learn(&mut history, url, nature);
        }
        let mut history = History::default();
        predictor.learn(&mut history, 1, PAGE);
        let urls: Vec<Url> = predictor.predict(&history).into_iter().map(|(url, _)| url).collect();
        // 12 belongs to page 2, whose request closed the window.
        assert_eq!(urls, [2, 10, 11]);
        predictor.learn(&mut history, 10, IMAGE);
        assert_eq!(predictor.predict(&history).len(), 3, "the image did not change the context");
    }

    #[test]
    fn the_longest_context_decides() {
        let mut predictor = predictor(2, 1, 0.0);
        walk(&mut predictor, &[1, 5, 7]);
        walk(&mut predictor, &[2, 5, 8]);
        walk(&mut predictor, &[2, 5, 8]);
        let history = walk(&mut predictor, &[1, 5]);
        // After 1, 5, 7 came in one of two cases. 8 came only after 5 with other predecessors, in two of four.
        assert_eq!(predictor.predict(&history), [(7, 0.5), (8, 0.5)]);
    }

    #[test]
    fn improbable_and_generated_urls_are_not_predicted() {
        let mut predictor = predictor(1, 1, 0.3);
        for next in [2, 2, 3, 2] {
            walk(&mut predictor, &[1, next]);
        }
        let mut history = walk(&mut predictor, &[1]);
        assert_eq!(predictor.predict(&history), [(2, 0.6)]);
        predictor.learn(&mut history, 9, PROGRAM);
        let history = walk(&mut predictor, &[1]);
        assert!(predictor.predict(&history).iter().all(|&(url, _)| url != 9));
    }

    #[test]
    fn one_window_counts_a_url_once() {
        let mut predictor = predictor(1, 5, 0.0);
        walk(&mut predictor, &[1, 2, 2, 2]);
        let history = walk(&mut predictor, &[1]);
        assert_eq!(predictor.predict(&history), [(2, 0.5)]);
    }

    #[test]
    fn images_and_generated_responses_are_recognised_by_name() {
        let nature = |url| (Nature::of(url).image, Nature::of(url).cachable);
        assert_eq!(nature("http://a/b/c.GIF"), (true, true));
        assert_eq!(nature("http://a/b/"), (false, true));
        assert_eq!(nature("http://a/find?q=x.png"), (false, false));
        assert_eq!(nature("http://a/cgi-bin/count"), (false, false));
        assert_eq!(nature("http://a/x.php"), (false, false));
    }
}
