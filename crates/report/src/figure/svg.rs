//! A drawing as SVG. Text stays text, so that it can be searched and changed.

use std::fmt::Write as _;

use super::{Anchor, Drawing, Paint, Shape};

/// Text and attribute values of XML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// At most two decimals, and no zeros that say nothing: files stay small and the same everywhere.
fn number(value: f32) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn points(points: &[(f32, f32)]) -> String {
    points.iter().map(|&(x, y)| format!("{},{}", number(x), number(y))).collect::<Vec<_>>().join(" ")
}

fn colour([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// The file.
pub(super) fn write(drawing: &Drawing) -> String {
    let (width, height) = (number(drawing.width), number(drawing.height));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}pt\" height=\"{height}pt\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"DejaVu Sans, Verdana, Arial, sans-serif\">\n<title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        escape(&drawing.title)
    );
    for shape in &drawing.shapes {
        let _ = match shape {
            Shape::Line { points: line, colour: stroke, width, dash } => {
                let dash = match dash.as_slice() {
                    [] => String::new(),
                    dash => {
                        let parts: Vec<String> = dash.iter().map(|&part| number(part)).collect();
                        format!(" stroke-dasharray=\"{}\"", parts.join(" "))
                    }
                };
                writeln!(
                    svg,
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"{dash}/>",
                    points(line),
                    colour(*stroke),
                    number(*width)
                )
            }
            Shape::Area { points: area, paint: Paint { colour: fill, opacity } } => writeln!(
                svg,
                "<polygon points=\"{}\" fill=\"{}\" fill-opacity=\"{}\"/>",
                points(area),
                colour(*fill),
                number(*opacity)
            ),
            Shape::Text { text, at: (x, y), size, anchor, upright } => {
                let anchor = match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                };
                let (x, y) = (number(*x), number(*y));
                let turn =
                    if *upright { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
                writeln!(
                    svg,
                    "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" text-anchor=\"{anchor}\"{turn}>{}</text>",
                    number(*size),
                    escape(text)
                )
            }
        };
    }
    svg + "</svg>\n"
}
