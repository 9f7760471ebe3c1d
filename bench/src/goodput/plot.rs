//! The plot: a group of bars for each flood, a bar for each limiter. It is as high as the break
//! point as a multiple of that without a limiter.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plotters::prelude::*;

use super::{GOAL, Row};
use crate::{
    plot::{COLOURS, TEXT, text},
    statistics::Spread,
};

const SIZE: (u32, u32) = (1_200, 420);
/// The room between two groups, in bars.
const BETWEEN: usize = 2;

/// Draws it as SVG.
pub fn draw(rows: &[Row], path: &Path) -> Result<()> {
    try_draw(rows, path)
        .map_err(|error| anyhow!("{error}"))
        .with_context(|| format!("drawing {}", path.display()))
}

#[expect(clippy::cast_precision_loss, reason = "dozens")]
fn try_draw(rows: &[Row], path: &Path) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut floods: Vec<_> = rows.iter().map(|row| row.flood.label()).collect();
    floods.dedup();
    let bars = rows.len() / floods.len().max(1);
    let group = bars + BETWEEN;
    let width = floods.len() * group;
    let ratio = |row: &Row| Spread::of(&row.ratios).map_or(0.0, |ratios| ratios.median);
    let highest = rows.iter().map(ratio).fold(GOAL, f64::max);
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(text)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .x_label_area_size(30)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..width as f64, 0.0..highest * 1.9)
        .map_err(text)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .y_desc("flood withstood, times that of no limiter")
        .label_style(TEXT)
        .light_line_style(WHITE)
        .draw()
        .map_err(text)?;
    let none = [(0.0, 1.0), (width as f64, 1.0)];
    chart
        .draw_series(LineSeries::new(none, BLACK.stroke_width(1)))
        .map_err(text)?;
    for (number, colour) in (0..bars).zip(COLOURS.iter().cycle()) {
        let of_one = rows.iter().skip(number).step_by(bars).enumerate();
        let bar = |(flood, row): (usize, &Row)| {
            let left = (flood * group + number) as f64 + 1.0;
            Rectangle::new([(left, 0.0), (left + 0.9, ratio(row))], colour.filled())
        };
        let name = rows.get(number).map_or("", |row| row.kind.label());
        let key = move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled());
        chart
            .draw_series(of_one.map(bar))
            .map_err(text)?
            .label(name)
            .legend(key);
    }
    let names = floods.iter().enumerate();
    let names = names.map(|(number, name)| {
        Text::new(
            (*name).to_owned(),
            ((number * group) as f64 + 0.5, highest * 1.08),
            ("sans-serif", 12),
        )
    });
    chart.draw_series(names).map_err(text)?;
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperMiddle)
        .background_style(WHITE)
        .label_font(("sans-serif", 13))
        .draw()
        .map_err(text)?;
    area.present().map_err(text)?;
    Ok(())
}
