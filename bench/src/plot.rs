//! The plot: the cost of a packet by the number of sources, a line for each scenario and family.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result, anyhow};
use plotters::prelude::*;

use crate::report::Report;

const SIZE: (u32, u32) = (900, 540);
/// The text of axes.
pub const TEXT: (&str, u32) = ("sans-serif", 16);
/// Colours that people with any colour vision tell apart (Okabe and Ito, 2008).
pub const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(80, 80, 80),
    RGBColor(160, 130, 0),
];

/// Number of sources (its power of two) and ratio, by the name of the line.
type Lines = BTreeMap<String, Vec<(f64, f64)>>;

/// Draws it as SVG.
pub fn draw(report: &Report, path: &Path) -> Result<()> {
    let lines = lines(report);
    let highest = lines
        .values()
        .flatten()
        .map(|(_, ratio)| *ratio)
        .reduce(f64::max);
    let highest = highest.context("no case has a number of sources to draw it over")?;
    try_draw(&lines, highest, path)
        .map_err(|error| anyhow!("{error}"))
        .with_context(|| format!("drawing {}", path.display()))
}

/// Returns the lines of IPv4 with more than two points. Those of IPv6 would be slightly above, and
/// hide them.
#[expect(clippy::cast_precision_loss, reason = "powers of two")]
fn lines(report: &Report) -> Lines {
    let mut lines = Lines::new();
    for row in &report.rows {
        let (Some(sources), Some((name, _))) = (row.sources, row.name.rsplit_once('/')) else {
            continue;
        };
        let point = ((sources as f64).log2(), row.ratio.median);
        lines.entry(name.to_owned()).or_default().push(point);
    }
    lines.retain(|name, points| name.ends_with("/ipv4") && points.len() > 2);
    for points in lines.values_mut() {
        points.sort_by(|left, right| left.0.total_cmp(&right.0));
    }
    lines
}

fn try_draw(
    lines: &Lines,
    highest: f64,
    path: &Path,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(text)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..32.0, (1.0..highest * 1.2).log_scale())
        .map_err(text)?;
    chart
        .configure_mesh()
        .x_desc("sources")
        .y_desc("cost of a packet, empty program = 1")
        .x_labels(9)
        .x_label_formatter(&|bits| format!("2^{bits:.0}"))
        .y_label_formatter(&|ratio| format!("{ratio:.0}"))
        .label_style(TEXT)
        .light_line_style(RGBColor(240, 240, 240))
        .draw()
        .map_err(text)?;
    for ((name, points), colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3);
        let key = move |(x, y)| PathElement::new([(x, y), (x + 24, y)], colour.stroke_width(2));
        chart
            .draw_series(line)
            .map_err(text)?
            .label(name)
            .legend(key);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .label_font(TEXT)
        .draw()
        .map_err(text)?;
    area.present().map_err(text)?;
    Ok(())
}

/// An error of the library, which cannot be sent between threads.
#[expect(clippy::needless_pass_by_value, reason = "what `map_err` gives")]
pub fn text(error: impl ToString) -> Box<dyn std::error::Error + Send + Sync> {
    error.to_string().into()
}
