//! A drawing as PDF. Letters are drawn as outlines: there is no font that a publisher could miss in the file.

use pdf_writer::types::LineJoinStyle;
use pdf_writer::{Content, Finish as _, Name, Pdf, Rect, Ref, TextStr};

use super::font::{Font, Stroke};
use super::{Anchor, Drawing, Paint, Shape};

/// The colour of text.
const INK: [u8; 3] = [0, 0, 0];

fn unit([r, g, b]: [u8; 3]) -> (f32, f32, f32) {
    (f32::from(r) / 255.0, f32::from(g) / 255.0, f32::from(b) / 255.0)
}

/// The name of the graphics state with an opacity, in hundredths.
fn state_name(opacity: f32) -> Vec<u8> {
    format!("A{}", (opacity * 100.0).round()).into_bytes()
}

/// The file.
pub(super) fn write(drawing: &Drawing, font: &Font) -> Vec<u8> {
    let [catalog, tree, page, contents, info] = [1, 2, 3, 4, 5].map(Ref::new);
    let mut opacities: Vec<f32> = drawing
        .shapes
        .iter()
        .filter_map(|shape| match shape {
            Shape::Area { paint, .. } => Some(paint.opacity),
            _ => None,
        })
        .collect();
    opacities.sort_by(f32::total_cmp);
    opacities.dedup();
    let mut pdf = Pdf::new();
    pdf.catalog(catalog).pages(tree);
    pdf.pages(tree).kids([page]).count(1);
    pdf.document_info(info).title(TextStr(&drawing.title)).producer(TextStr("Warpline"));
    {
        let mut writer = pdf.page(page);
        writer.media_box(Rect::new(0.0, 0.0, drawing.width, drawing.height));
        writer.parent(tree);
        writer.contents(contents);
        let mut resources = writer.resources();
        let mut states = resources.ext_g_states();
        for (index, &opacity) in opacities.iter().enumerate() {
            states.pair(Name(&state_name(opacity)), Ref::new(6 + index as i32));
        }
        states.finish();
        resources.finish();
    }
    for (index, &opacity) in opacities.iter().enumerate() {
        pdf.ext_graphics(Ref::new(6 + index as i32)).non_stroking_alpha(opacity);
    }
    let mut content = Content::new();
    // PDF counts upwards.
    content.transform([1.0, 0.0, 0.0, -1.0, 0.0, drawing.height]);
    content.set_line_join(LineJoinStyle::RoundJoin);
    for shape in &drawing.shapes {
        content.save_state();
        draw(&mut content, shape, font);
        content.restore_state();
    }
    pdf.stream(contents, &content.finish());
    pdf.finish()
}

fn path(content: &mut Content, points: &[(f32, f32)]) {
    for (index, &(x, y)) in points.iter().enumerate() {
        if index == 0 {
            content.move_to(x, y)
        } else {
            content.line_to(x, y)
        };
    }
}

fn draw(content: &mut Content, shape: &Shape, font: &Font) {
    match shape {
        Shape::Line { points, colour, width, dash } => {
            let (r, g, b) = unit(*colour);
            content.set_stroke_rgb(r, g, b).set_line_width(*width);
            content.set_dash_pattern(dash.iter().copied(), 0.0);
            path(content, points);
            content.stroke();
        }
        Shape::Area { points, paint: Paint { colour, opacity } } => {
            let (r, g, b) = unit(*colour);
            content.set_parameters(Name(&state_name(*opacity))).set_fill_rgb(r, g, b);
            path(content, points);
            content.close_path().fill_nonzero();
        }
        Shape::Text { text, at: (x, y), size, anchor, upright } => {
            let width = font.width(text, *size);
            let back = match anchor {
                Anchor::Start => 0.0,
                Anchor::Middle => width / 2.0,
                Anchor::End => width,
            };
            let (r, g, b) = unit(INK);
            content.set_fill_rgb(r, g, b);
            // Letters count upwards again; upright ones go up the page.
            content.transform(if *upright {
                [0.0, -1.0, -1.0, 0.0, *x, *y + back]
            } else {
                [1.0, 0.0, 0.0, -1.0, *x - back, *y]
            });
            for stroke in font.outlines(text, *size) {
                match stroke {
                    Stroke::Move(x, y) => content.move_to(x, y),
                    Stroke::Line(x, y) => content.line_to(x, y),
                    Stroke::Curve([x1, y1, x2, y2, x, y]) => content.cubic_to(x1, y1, x2, y2, x, y),
                    Stroke::Close => content.close_path(),
                };
            }
            content.fill_nonzero();
        }
    }
}
