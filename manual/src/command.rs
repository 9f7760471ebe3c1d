//! Pages of a command and of its verbs.

use clap::Command;
use clap_mangen::Man;
use roff::{Roff, bold, roman};

use crate::{DATE, MANUAL, Page, SOURCE};

/// Returns the page of a command, and those of its verbs.
///
/// # Panics
///
/// Never: writing to a string does not fail.
pub fn pages(mut command: Command, section: &str, related: &[&str]) -> Vec<Page> {
    command = command.disable_help_subcommand(true);
    command.build();
    let name = command.get_name().to_owned();
    let mut pages = Vec::new();
    collect(&command, &name, section, related, &mut pages);
    pages
}

fn collect(command: &Command, name: &str, section: &str, related: &[&str], pages: &mut Vec<Page>) {
    let page = page(command, name, section, related).expect("a string takes it");
    pages.push(Page::new(name, section, &page));
    let above = format!("{name}({section})");
    let related: Vec<&str> = [above.as_str()]
        .into_iter()
        .chain(related.iter().copied())
        .collect();
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        collect(
            verb,
            &format!("{name}-{}", verb.get_name()),
            section,
            &related,
            pages,
        );
    }
}

fn page(command: &Command, name: &str, section: &str, related: &[&str]) -> std::io::Result<String> {
    let man = Man::new(command.clone())
        .title(name.to_uppercase())
        .section(section)
        .date(DATE)
        .source(SOURCE)
        .manual(MANUAL);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let after = command.get_after_long_help().or(command.get_after_help());
    let after = after.map(ToString::to_string).unwrap_or_default();
    let below = format!("{}{}", notes(&after), see_also(related));
    Ok(String::from_utf8_lossy(&page).into_owned() + &below)
}

/// Formats the text after the options: a block with a heading becomes a section of verbatim lines,
/// any other block a paragraph.
fn notes(after: &str) -> String {
    let mut roff = Roff::new();
    for block in after.split("\n\n").filter(|block| !block.is_empty()) {
        match block.split_once(":\n") {
            Some((heading, lines)) if !heading.contains('\n') => {
                roff.control("SH", [heading.to_uppercase().as_str()]);
                roff.control("nf", []);
                for line in lines.lines() {
                    roff.text([roman(line.trim_start())]);
                }
                roff.control("fi", []);
            }
            _ => {
                roff.control("SH", ["NOTES"]);
                roff.text([roman(block)]);
            }
        }
    }
    roff.to_roff()
}

fn see_also(related: &[&str]) -> String {
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold(related.join(", "))]);
    roff.to_roff()
}
