//! The state of the challenge, in BPF maps, and the answer in place of the question: a SYN-ACK with a cookie, or a DNS answer with TC set.

use aya_ebpf::{
    bindings::{
        xdp_action::{XDP_DROP, XDP_TX},
        xdp_md,
    },
    helpers::bpf_xdp_adjust_tail,
    programs::XdpContext,
};
use ratelimit_common::{
    Instant, Settings,
    challenge::{
        self, Asked, ChallengeState, Counted, Key, On, Place, Rules, Segment, Shared, Verified,
        answer::{self, Cookies, Front, ListenerCookie},
        answer_limit,
        cookie::Message,
        options::{self, Request, Written},
    },
    generation::Generation,
    layout,
    of_cpu::OfCpu,
};

use crate::{
    clock,
    family::FamilyCode,
    first::First as _,
    frame, interface, interruption,
    map_words::MapWord,
    maps::{ANSWERED, CHALLENGE, CHALLENGE_KEY, CHALLENGE_TAKEN, OF_CPU},
    settings::settings,
    subprograms, suspended,
};

/// The challenge by the rules of the generation of settings, for the packet of a context.
pub struct MapChallenge {
    settings: Settings,
    context: *mut xdp_md,
    of_cpu: *mut OfCpu,
}

impl MapChallenge {
    /// The challenge on a CPU that keeps this.
    ///
    /// # Safety
    ///
    /// `of_cpu` is a live map value.
    #[inline(always)]
    pub const unsafe fn new(settings: Settings, context: *mut xdp_md, of_cpu: *mut OfCpu) -> Self {
        Self {
            settings,
            context,
            of_cpu,
        }
    }

    /// Where it is asked for: most packets have no need of it.
    #[inline(always)]
    fn generation(&self) -> Generation {
        Settings::from_bits(subprograms::unknown(self.settings.to_bits())).generation()
    }

    /// What this CPU keeps; `None` where programs on one interrupt each other.
    #[inline(always)]
    fn own(&self) -> Option<&mut challenge::OfCpu> {
        own(self.of_cpu)
    }

    /// The same, wherever the program runs. Nothing may be written there where [`own`](Self::own) answers nothing.
    #[inline(always)]
    fn own_unchecked(&self) -> &mut challenge::OfCpu {
        own_unchecked(self.of_cpu)
    }
}

impl<A: FamilyCode> ChallengeState<A> for MapChallenge {
    #[inline(always)]
    fn rules(&self) -> Option<&Rules> {
        Some(CHALLENGE.get().of(self.generation()))
    }

    #[inline(always)]
    fn cookie(&self, message: &Message) -> u32 {
        subprograms::cookie(message)
    }

    #[inline(always)]
    fn acknowledges_listener(&self, segment: &Segment<A>) -> bool {
        subprograms::acknowledges_listener(self.context, segment.place, A::BITS > 32)
    }

    #[inline(always)]
    fn takes(&self, which: Shared, now: Instant) -> bool {
        subprograms::take_of_challenge(which, self.generation(), now)
    }

    #[inline(always)]
    fn passes(&self, asked: Asked, source: &A, now: Instant) -> bool {
        // Read again: the compiler would keep its bits up to here, for which the stack has no room.
        let source = || subprograms::again(source);
        // Where programs on one CPU interrupt each other nothing is noted of the next packets, so none passes.
        self.own_unchecked()
            .passes(asked, source, self.settings.generation(), now)
    }

    #[inline(always)]
    fn passes_but_to_dns(&self, now: Instant) -> bool {
        self.own_unchecked()
            .passes_but_to_dns(self.settings.generation(), now)
    }

    #[inline(always)]
    fn set_counted(&self, asked: Asked, counted: Option<Counted>) {
        if let Some(own) = self.own() {
            own.set_counted(asked, counted, self.settings.generation());
        }
    }

    #[inline(always)]
    fn set_passes_verified(&self, asked: Asked, until: Instant) {
        if let Some(own) = self.own() {
            own.set_passes_verified(asked, until);
        }
    }

    #[inline(always)]
    fn is_idle(&self, now: Instant) -> bool {
        // Where programs on one CPU interrupt each other it is never noted.
        self.own_unchecked().is_idle(now)
    }

    #[inline(always)]
    fn set_idle_until(&self, until: Instant) {
        if let Some(own) = self.own() {
            own.set_idle_until(until);
        }
    }

    #[inline(always)]
    fn forget_next(&self) {
        if let Some(own) = self.own() {
            own.forget_next();
        }
    }

    #[inline(always)]
    fn may_answer(&self, source: &A, now: Instant) -> bool {
        let bucket = answer_limit::bucket(source, key());
        let Some(word) = ANSWERED.get_ptr_mut(bucket) else {
            return false;
        };
        CHALLENGE
            .get()
            .of(self.generation())
            .answer_limit()
            .take(&MapWord(word), now)
    }

    #[inline(always)]
    fn count_unanswered(&self) {
        // SAFETY: an aligned word of a live map value of this CPU.
        unsafe { interruption::add([(&raw mut (*self.of_cpu).challenge.unanswered, 1)]) };
    }

    #[inline(always)]
    fn until(&self, asked: Asked) -> Instant {
        // SAFETY: an aligned word of a live map value.
        Instant::from_nanos(unsafe { (&raw const (*on(asked)).until_ns).read_volatile() })
    }

    #[inline(always)]
    fn suspended_until(&self) -> Instant {
        suspended::until(layout::suspended::CHALLENGE)
    }

    #[inline(always)]
    fn set_until(&self, asked: Asked, until: Instant) {
        // SAFETY: as above.
        unsafe { (&raw mut (*on(asked)).until_ns).write_volatile(until.as_nanos()) };
    }

    #[inline(always)]
    fn set_since(&self, asked: Asked, since: Instant) {
        // SAFETY: as above.
        unsafe { (&raw mut (*on(asked)).since_ns).write_volatile(since.as_nanos()) };
    }

    #[inline(always)]
    fn verified(&self, source: &A) -> Option<Verified> {
        // SAFETY: the value is a word, and is read at once.
        let verified = A::VERIFIED.get_ptr(source)?;
        // SAFETY: as above.
        Some(Verified::from_bits(unsafe { verified.read_volatile() }))
    }

    #[inline(always)]
    fn knows_verified(&self, source: &A, now: Instant) -> bool {
        // As above.
        self.own()
            .is_some_and(|own| own.verified.knows(subprograms::again(source), now))
    }

    #[inline(always)]
    fn is_verified(&self, source: &A, now: Instant) -> bool {
        let Some(verified) = self.verified(source) else {
            return false;
        };
        if let Some(own) = self.own()
            && (!verified.is_by_reset() || !self.settings.prefers_verified())
        {
            own.verified.keep(source, verified.until(), now);
        }
        now < verified.until()
    }

    #[inline(always)]
    fn is_acknowledged(&self, source: &A, now: Instant) -> bool {
        let Some(verified) = self.verified(source).filter(|it| !it.is_by_reset()) else {
            return false;
        };
        if let Some(own) = self.own() {
            own.verified.keep(source, verified.until(), now);
        }
        now < verified.until()
    }

    #[inline(always)]
    fn verify(&self, source: &A, verified: Verified) {
        // Without room the source is asked again.
        let _ = A::VERIFIED.insert(source, verified.to_bits(), 0);
    }
}

/// What a CPU keeps of the challenge; `None` where programs on one interrupt each other.
#[inline(always)]
fn own<'a>(of_cpu: *mut OfCpu) -> Option<&'a mut challenge::OfCpu> {
    if interruption::is_possible() {
        return None;
    }
    Some(own_unchecked(of_cpu))
}

#[inline(always)]
fn own_unchecked<'a>(of_cpu: *mut OfCpu) -> &'a mut challenge::OfCpu {
    // Of a register of its own: the compiler would read the pointer from the stack for each word.
    let of_cpu = subprograms::unknown_pointer(of_cpu);
    // SAFETY: a live map value of this CPU, of which nobody holds another reference. Where XDP programs interrupt each other on one, it is
    // only read.
    unsafe { &mut (*of_cpu).challenge }
}

#[inline(always)]
fn on(asked: Asked) -> *mut On {
    // SAFETY: both lie in the live map value.
    let [connections, queries] = unsafe {
        let on = (&raw mut (*CHALLENGE_TAKEN.as_ptr()).on).cast::<On>();
        [on, on.add(1)]
    };
    match asked {
        Asked::Connections => connections,
        Asked::Queries => queries,
    }
}

/// What cookies are keyed with.
#[inline(always)]
pub fn key() -> Key {
    let word = |index| CHALLENGE_KEY.get(index).copied().unwrap_or_default();
    Key([word(0), word(1)])
}

/// Takes one of the [`Shared`] of this number; `false` when it is spent. All of them are one path for the verifier.
#[inline(always)]
pub fn take(which: usize, now: Instant, generation: Generation) -> bool {
    let which = which & 3;
    let rules = CHALLENGE.get().of(generation);
    let Some(budget) = rules.shared().get(which) else {
        return false;
    };
    // SAFETY: the words of all stand in front of the live map value, and there are as many as budgets.
    let word = MapWord(unsafe { CHALLENGE_TAKEN.as_ptr().cast::<u64>().add(which) });
    let Some(share) = OF_CPU
        .first_ptr()
        .and_then(own)
        .and_then(|own| own.shares.get_mut(which))
    else {
        return budget.take_one(&word, now);
    };
    match budget.take(&word, *share, now) {
        Some(next) => {
            *share = next;
            true
        }
        None => false,
    }
}

/// Writes the answer over the question, and sends it back.
#[inline(always)]
pub fn answer(context: *mut xdp_md) -> u32 {
    let action = subprograms::unknown(answer_question(context)) as u32;
    if action == XDP_TX {
        return action;
    }
    subprograms::unknown(answer_query(context)) as u32
}

/// The cookies for the packet of a context.
struct KernelCookies(*mut xdp_md);

impl Cookies for KernelCookies {
    #[inline(always)]
    fn hash(&self, message: &Message) -> u32 {
        subprograms::cookie(message)
    }

    #[inline(always)]
    fn of_listener(&self, place: Place, is_ipv6: bool) -> Option<ListenerCookie> {
        let rules = CHALLENGE.get().of(settings().generation());
        if !rules.asks_listeners() {
            return None;
        }
        subprograms::cookie_of_listener(self.0, place, is_ipv6)
    }

    #[inline(always)]
    fn write_options(&self, request: Request, now: Instant) -> Option<Written> {
        subprograms::write_options(self.0, request, now)
    }
}

/// [`options::write`] into the frame of `context`.
#[inline(always)]
pub fn write_options(context: *mut xdp_md, request: Request, now: Instant) -> Option<Written> {
    let packet = XdpContext::new(context);
    let (start, end) = (packet.data() as *mut u8, packet.data_end() as *mut u8);
    // SAFETY: the bounds of the packet, of which nobody holds a reference while it is written.
    let front = unsafe { Front::from_raw(start, end) };
    let rules = CHALLENGE.get().of(settings().generation());
    let listener = rules.listener_options();
    let find = |kind| subprograms::find_option(context, request.from, request.bytes, kind);
    options::write(frame::whole(&packet), &front, request, listener, find, now)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn answer_question(context: *mut xdp_md) -> u64 {
    let Some(of_cpu) = OF_CPU.first_ptr() else {
        return XDP_DROP.into();
    };
    // SAFETY: a live map value of this CPU, of which nobody holds another reference.
    let now = unsafe { clock::now(settings(), of_cpu) };
    let packet = XdpContext::new(context);
    let (start, end) = (packet.data() as *mut u8, packet.data_end() as *mut u8);
    let frame = frame::whole(&packet);
    // SAFETY: the bounds of the packet, of which nobody holds a reference while it is written.
    let front = unsafe { Front::from_raw(start, end) };
    let walk = |cursor, first| subprograms::walk(context, cursor, first);
    let written = answer::write(
        frame,
        &front,
        interface::link_layer(),
        walk,
        &KernelCookies(context),
        now,
    );
    match written {
        Some(bytes) => send_back(context, bytes),
        None => XDP_DROP.into(),
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn answer_query(context: *mut xdp_md) -> u64 {
    let packet = XdpContext::new(context);
    let (start, end) = (packet.data() as *mut u8, packet.data_end() as *mut u8);
    // SAFETY: the bounds of the packet, of which nobody holds a reference while it is written.
    let front = unsafe { Front::from_raw(start, end) };
    let written = answer::write_query(
        frame::whole(&packet),
        &front,
        interface::link_layer(),
        |_, _| subprograms::question_bytes(context),
        |cursor, bytes| Some(subprograms::sum(context, cursor.offset(), bytes)),
    );
    match written {
        Some(bytes) => send_back(context, bytes),
        None => XDP_DROP.into(),
    }
}

/// Cuts a frame, of which so many bytes were written, and sends it back.
#[inline(always)]
fn send_back(context: *mut xdp_md, bytes: u16) -> u64 {
    let excess = frame::bytes(context).wrapping_sub(u32::from(bytes).max(FRAME_BYTES_MIN)) as i32;
    if excess > 0 {
        // SAFETY: the helper changes the frame that the context describes. Where it refuses, the rest is padding.
        unsafe { bpf_xdp_adjust_tail(context, excess.wrapping_neg()) };
    }
    XDP_TX.into()
}

/// What Ethernet sends at least, without the checksum.
const FRAME_BYTES_MIN: u32 = 60;
