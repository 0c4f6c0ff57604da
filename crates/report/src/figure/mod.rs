//! Figures for papers: curves over time with bands, as SVG or PDF. The same data give the same bytes.
//!
//! A figure is laid out once, into lines, areas and texts, and these are written in either format. The sizes are those of a column of
//! a paper: text is 8 points high.

mod font;
mod pdf;
mod svg;

use std::path::Path;

use warpline_core::float;

use super::bands::Band;
use super::quantity::Quantity;
use font::Font;

/// Width and height in points: 12.7 cm and 7.6 cm.
const SIZE: (f32, f32) = (360.0, 216.0);
/// Height of letters in points.
const LETTERS: f32 = 8.0;
/// Height of a row of names in points.
const ROW: f32 = LETTERS * 1.6;
/// Half the width of a sample that no other one is beside.
const DOT: f32 = 0.6;
/// Rows of names for which [`SIZE`] has room; with more of them a figure is higher.
const MAX_LEGEND: usize = 6;
/// Colours that also the colour-blind tell apart (M. Okabe and K. Ito, "Color universal design", 2008).
const COLOURS: [[u8; 3]; 6] =
    [[0, 114, 178], [213, 94, 0], [0, 158, 115], [204, 121, 167], [230, 159, 0], [86, 180, 233]];
/// Dashes tell lines apart where there is no colour.
const DASHES: [&[f32]; 3] = [&[], &[5.0, 2.0], &[1.5, 1.5]];

/// Colour and dash of a line. When the colours begin again, each has another dash than before.
fn style(index: usize) -> ([u8; 3], Vec<f32>) {
    let dash = DASHES[(index + index / COLOURS.len()) % DASHES.len()];
    (COLOURS[index % COLOURS.len()], dash.to_vec())
}

const GRID: [u8; 3] = [221, 221, 221];
const FRAME: [u8; 3] = [64, 64, 64];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Paint {
    colour: [u8; 3],
    opacity: f32,
}

/// What is drawn, in points from the upper left corner.
#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Line { points: Vec<(f32, f32)>, colour: [u8; 3], width: f32, dash: Vec<f32> },
    Area { points: Vec<(f32, f32)>, paint: Paint },
    Text { text: String, at: (f32, f32), size: f32, anchor: Anchor, upright: bool },
}

/// A figure, laid out.
#[derive(Clone, Debug, PartialEq)]
struct Drawing {
    title: String,
    width: f32,
    height: f32,
    shapes: Vec<Shape>,
}

/// A format of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Scalable Vector Graphics.
    Svg,
    /// Portable Document Format.
    Pdf,
}

impl Format {
    /// The format that a file name's ending tells; none for other endings.
    pub fn of(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "svg" => Some(Format::Svg),
            "pdf" => Some(Format::Pdf),
            _ => None,
        }
    }
}

/// A quantity over time, a line for each run or set, with the 95 % interval of the mean as a band.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What is drawn.
    pub quantity: Quantity,
    /// Whose, where it is not all flows: a group, a flow or a link.
    pub of: Option<String>,
    /// Name and values of each line.
    pub lines: Vec<(String, Band)>,
}

impl Figure {
    /// Whether there is anything to draw.
    pub fn is_empty(&self) -> bool {
        self.lines.iter().all(|(_, band)| band.time_s.is_empty())
    }

    /// The figure as a file of this format.
    pub fn write(&self, format: Format) -> Vec<u8> {
        let font = Font::new();
        let drawing = self.lay_out(&font);
        match format {
            Format::Svg => svg::write(&drawing).into_bytes(),
            Format::Pdf => pdf::write(&drawing, &font),
        }
    }

    /// Smallest and largest time, and the largest value that is drawn.
    fn extent(&self) -> (f64, f64, f64) {
        let times = || self.lines.iter().flat_map(|(_, band)| band.time_s.iter().copied());
        let values = self.lines.iter().flat_map(|(_, band)| band.mean.iter().chain(&band.high));
        // `max` passes over what is not a number.
        let top = values.copied().fold(0.0, f64::max);
        let (from, to) = (times().fold(f64::INFINITY, f64::min), times().fold(f64::NEG_INFINITY, f64::max));
        if from.is_finite() { (from.min(0.0), to.max(from + 1e-9), top) } else { (0.0, 1.0, top) }
    }

    fn lay_out(&self, font: &Font) -> Drawing {
        let width = SIZE.0;
        let legend = self.legend(font, width);
        let height = SIZE.1 + legend.rows.saturating_sub(MAX_LEGEND) as f32 * ROW;
        let (from, to, top) = self.extent();
        let (factor, unit) = scale(self.quantity.kind(), top);
        let (ticks_x, ticks_y) =
            (ticks(from, to, 6), ticks(0.0, if top > 0.0 { top * 1.05 } else { factor } / factor, 5));
        let high = ticks_y.last().map_or(1.0, |last| last.0).max(top * 1.02 / factor);
        let mut shapes = Vec::new();

        let widest = ticks_y.iter().map(|(_, text)| font.width(text, LETTERS)).fold(0.0, f32::max);
        let (left, right) = (LETTERS * 2.4 + widest, width - LETTERS);
        let (upper, lower) = (LETTERS + legend.rows as f32 * ROW, height - LETTERS * 3.4);
        let x = |time: f64| left + ((time - from) / (to - from)) as f32 * (right - left);
        let y = |value: f64| lower - (value / high) as f32 * (lower - upper);
        let line =
            |points: Vec<(f32, f32)>, colour, width| Shape::Line { points, colour, width, dash: Vec::new() };
        let text = |text: &str, at, anchor, upright| Shape::Text {
            text: text.to_owned(),
            at,
            size: LETTERS,
            anchor,
            upright,
        };
        for (value, label) in &ticks_y {
            shapes.push(line(vec![(left, y(*value)), (right, y(*value))], GRID, 0.5));
            let at = (left - LETTERS * 0.5, y(*value) + LETTERS * 0.36);
            shapes.push(text(label, at, Anchor::End, false));
        }
        for (time, label) in &ticks_x {
            shapes.push(line(vec![(x(*time), lower), (x(*time), lower + 3.0)], FRAME, 0.75));
            shapes.push(text(label, (x(*time), lower + LETTERS * 1.4), Anchor::Middle, false));
        }
        for (index, (_, band)) in self.lines.iter().enumerate() {
            let (colour, dash) = style(index);
            for piece in band.pieces() {
                let shown = |values: &[f64]| -> Vec<(f32, f32)> {
                    let all = band.time_s.iter().zip(values).skip(piece.start).take(piece.len());
                    let finite = all.filter(|(_, value)| value.is_finite());
                    finite.map(|(&time, &value)| (x(time), y(value / factor))).collect()
                };
                let (mut area, back) = (shown(&band.high), shown(&band.low));
                area.extend(back.into_iter().rev());
                if area.len() > 2 {
                    shapes.push(Shape::Area { points: area, paint: Paint { colour, opacity: 0.22 } });
                }
                let (mut points, mut dash) = (shown(&band.mean), dash.clone());
                // A line through a single point has no length, and would not be seen.
                if let &[(at, level)] = points.as_slice() {
                    points = vec![(at - DOT, level), (at + DOT, level)];
                    dash = Vec::new();
                }
                shapes.push(Shape::Line { points, colour, width: 1.25, dash });
            }
        }
        shapes.push(line(vec![(left, upper), (left, lower), (right, lower)], FRAME, 0.75));
        shapes.push(text("Time (s)", ((left + right) / 2.0, height - LETTERS * 0.6), Anchor::Middle, false));
        let label = match &self.of {
            Some(of) => format!("{} of {of}", self.quantity.label()),
            None => self.quantity.label().into_owned(),
        };
        let axis = format!("{label} ({unit})");
        shapes.push(text(&axis, (LETTERS * 1.1, (upper + lower) / 2.0), Anchor::Middle, true));
        for (name, (at, row), index) in legend.entries {
            let height = LETTERS * 1.2 + ROW * row as f32;
            let (colour, dash) = style(index);
            let points = vec![(at, height - LETTERS * 0.35), (at + 16.0, height - LETTERS * 0.35)];
            shapes.push(Shape::Line { points, colour, width: 1.75, dash });
            shapes.push(text(&name, (at + 20.0, height), Anchor::Start, false));
        }
        Drawing { title: format!("{label} over time"), width, height, shapes }
    }

    /// Where the names of the lines go: side by side above the plot, in as many rows as it takes.
    fn legend(&self, font: &Font, width: f32) -> Legend {
        let mut legend = Legend { entries: Vec::new(), rows: 0 };
        let mut at = LETTERS;
        for (index, (name, _)) in self.lines.iter().enumerate() {
            let room = width - 2.0 * LETTERS - 24.0;
            let name = shortened(name, |name| font.width(name, LETTERS) <= room);
            let own = 20.0 + font.width(&name, LETTERS);
            if legend.rows == 0 {
                legend.rows = 1;
            } else if at + own > width - LETTERS {
                (at, legend.rows) = (LETTERS, legend.rows + 1);
            }
            legend.entries.push((name, (at, legend.rows - 1), index));
            at += own + 2.0 * LETTERS;
        }
        legend
    }
}

/// The names of the lines: text, place and row, and the line's number.
struct Legend {
    entries: Vec<(String, (f32, usize), usize)>,
    rows: usize,
}

/// A name without its beginning where it does not fit: the end of a path tells more.
fn shortened(name: &str, fits: impl Fn(&str) -> bool) -> String {
    if fits(name) {
        return name.to_owned();
    }
    let mut rest = name.chars();
    while rest.next().is_some() {
        let short = format!("…{}", rest.as_str());
        if fits(&short) {
            return short;
        }
    }
    String::new()
}

/// Factor and unit in which the largest value is one or more.
fn scale(kind: &str, top: f64) -> (f64, &'static str) {
    let steps: &[(f64, &'static str)] = match kind {
        "bps" => &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")],
        "bytes" => &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")],
        "ms" => &[(1e3, "s"), (1.0, "ms")],
        _ => &[(1.0, "packets")],
    };
    steps.iter().copied().find(|(factor, _)| top >= *factor).unwrap_or(steps[steps.len() - 1])
}

/// Round numbers between two ends, about `count` of them, each with its text.
fn ticks(from: f64, to: f64, count: u32) -> Vec<(f64, String)> {
    let raw = (to - from) / f64::from(count);
    let power = float::powf(10.0, float::log10(raw).floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= raw * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let places = (-float::log10(step).floor()).max(0.0) as usize;
    let first = (from / step - 1e-9).ceil() as i64;
    (first..)
        .map(|n| n as f64 * step)
        .take_while(|value| *value <= to + step * 1e-9)
        .take(100)
        .map(|value| (value, format!("{:.places$}", if value == 0.0 { 0.0 } else { value })))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn band(height: f64) -> Band {
        let time_s: Vec<f64> = (1..=20).map(|i| f64::from(i) * 0.5).collect();
        let mean: Vec<f64> = time_s.iter().map(|t| height * (1.0 + (t * 0.7 % 2.0 - 1.0) * 0.2)).collect();
        Band {
            low: mean.iter().map(|v| v * 0.9).collect(),
            high: mean.iter().map(|v| v * 1.1).collect(),
            time_s,
            mean,
            skipped: Vec::new(),
        }
    }

    fn figure() -> Figure {
        let lines =
            vec![("runs/cubic & <co>".to_owned(), band(4.8e6)), ("runs/vegas".to_owned(), band(3.1e6))];
        Figure { quantity: Quantity::named("throughput").unwrap(), of: Some("bulk".to_owned()), lines }
    }

    #[test]
    fn a_figure_as_svg() {
        let svg = String::from_utf8(figure().write(Format::Svg)).unwrap();
        assert_eq!(svg, String::from_utf8(figure().write(Format::Svg)).unwrap());
        for part in [
            "Throughput of bulk (Mbit/s)",
            "Time (s)",
            "runs/cubic &amp; &lt;co&gt;",
            "fill-opacity=\"0.22\"",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert_eq!((svg.matches("<polygon").count(), svg.matches("stroke-dasharray").count()), (2, 2));
    }

    #[test]
    fn a_figure_as_pdf() {
        let pdf = figure().write(Format::Pdf);
        assert_eq!(pdf, figure().write(Format::Pdf));
        assert!(pdf.starts_with(b"%PDF-1.7") && pdf.ends_with(b"%%EOF"));
        let text = String::from_utf8_lossy(&pdf);
        assert!(text.contains("/MediaBox [0 0 360 216]") && text.contains("/ca 0.22"), "{text}");
        assert!(!text.contains("/Font"), "letters are outlines");
    }

    #[test]
    fn nothing_is_drawn_outside_the_figure() {
        let font = Font::new();
        let mut wide = figure();
        wide.lines =
            (0..5).map(|i| (format!("{i}/{}", "long/".repeat(30 * i)), band(7e5 * (i + 1) as f64))).collect();
        for figure in [figure(), wide] {
            let drawing = figure.lay_out(&font);
            let inside = |&(x, y): &(f32, f32)| {
                (0.0..=drawing.width).contains(&x) && (0.0..=drawing.height).contains(&y)
            };
            for shape in &drawing.shapes {
                match shape {
                    Shape::Line { points, .. } | Shape::Area { points, .. } => {
                        assert!(points.iter().all(inside), "{shape:?}");
                    }
                    Shape::Text { text, at: (x, y), size, anchor, upright } => {
                        let width = font.width(text, *size);
                        let share = match anchor {
                            Anchor::Start => 0.0,
                            Anchor::Middle => 0.5,
                            Anchor::End => 1.0,
                        };
                        let ends = [-share * width, (1.0 - share) * width];
                        let place = |d: f32| if *upright { (*x, *y + d) } else { (*x + d, *y) };
                        assert!(ends.into_iter().all(|d| inside(&place(d))), "{shape:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_two_of_many_lines_look_alike() {
        let styles: Vec<_> = (0..18).map(style).collect();
        for (index, one) in styles.iter().enumerate() {
            assert!(!styles[..index].contains(one), "{index}: {one:?}");
        }
    }

    #[test]
    fn a_long_legend_leaves_the_plot_its_room() {
        let font = Font::new();
        let mut figure = figure();
        let height = |figure: &Figure| {
            let drawing = figure.lay_out(&font);
            let frame = drawing.shapes.iter().find_map(|shape| match shape {
                Shape::Line { points, colour, .. } if *colour == FRAME && points.len() == 3 => {
                    Some(points[1].1 - points[0].1)
                }
                _ => None,
            });
            (drawing.height, frame.unwrap())
        };
        assert_eq!(height(&figure).0, SIZE.1);
        figure.lines = (0..40).map(|i| (format!("{i}/{}", "long/".repeat(9)), band(1e6))).collect();
        let (whole, plot) = height(&figure);
        assert!(whole > SIZE.1 && plot > 90.0, "{plot} of {whole}");
    }

    #[test]
    fn nothing_is_drawn_across_time_that_was_skipped() {
        let font = Font::new();
        let mut figure = figure();
        // Samples are at 0.5, 1, ... 10 s; there are none of 3 to 5 s.
        let (_, band) = &mut figure.lines[0];
        for values in [&mut band.time_s, &mut band.mean, &mut band.low, &mut band.high] {
            values.drain(6..9);
        }
        band.skipped = vec![[3.0, 4.9]];
        let shapes = figure.lay_out(&font).shapes;
        let areas: Vec<usize> = shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Area { points, .. } => Some(points.len() / 2),
                _ => None,
            })
            .collect();
        let lines: Vec<usize> = shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Line { points, width: 1.25, .. } => Some(points.len()),
                _ => None,
            })
            .collect();
        assert_eq!((areas, lines), (vec![6, 11, 20], vec![6, 11, 20]));
    }

    #[test]
    fn a_sample_between_two_stretches_that_were_skipped_is_a_dot() {
        let mut figure = figure();
        // Of 1.5 to 5 s there is one sample only, that of 3 s. The second line is a dashed one.
        let (_, band) = &mut figure.lines[1];
        for values in [&mut band.time_s, &mut band.mean, &mut band.low, &mut band.high] {
            values.drain(6..9);
            values.drain(3..5);
        }
        band.skipped = vec![[1.5, 2.9], [3.0, 4.9]];
        let shapes = figure.lay_out(&Font::new()).shapes;
        let dots: Vec<_> = shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Line { points, width: 1.25, dash, .. } if points.len() < 3 => Some((points, dash)),
                _ => None,
            })
            .collect();
        let [(points, dash)] = dots.as_slice() else { panic!("{dots:?}") };
        let [(left, one), (right, other)] = points.as_slice() else { panic!("{points:?}") };
        assert!(dash.is_empty() && right - left > 1.0 && one == other, "{points:?} {dash:?}");
    }

    #[test]
    fn ticks_are_round_numbers() {
        let texts =
            |from, to, count| ticks(from, to, count).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(texts(0.0, 10.0, 5), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(texts(0.0, 0.9, 5), ["0.0", "0.2", "0.4", "0.6", "0.8"]);
        assert_eq!(texts(0.0, 60.0, 6), ["0", "10", "20", "30", "40", "50", "60"]);
        assert_eq!(texts(0.0, 1.05, 5), ["0.0", "0.5", "1.0"]);
    }

    #[test]
    fn what_has_no_samples_or_one_run_is_drawn_all_the_same() {
        let empty = Figure {
            quantity: Quantity::named("queue").unwrap(),
            of: None,
            lines: vec![("a".to_owned(), Band::default())],
        };
        assert!(empty.is_empty());
        assert!(String::from_utf8(empty.write(Format::Svg)).unwrap().contains("Queue (packets)"));
        let mut one = figure();
        for (_, band) in &mut one.lines {
            band.low.fill(f64::NAN);
            band.high.fill(f64::NAN);
        }
        assert!(!String::from_utf8(one.write(Format::Svg)).unwrap().contains("<polygon"));
    }
}
