//! The state of the challenge, in BPF maps.

#[cfg_attr(feature = "tcx", expect(dead_code, reason = "TCX cannot answer"))]
mod answer;

use ratelimit_common::{
    Cursor, Instant, Settings,
    challenge::{
        self, ChallengeState, Counted, Key, Message, Period, Rules, Segment, Shared, Traffic,
        Verified,
        answer::ListenerCookie,
        answer_limit,
        options::{Request, Written},
        query,
    },
    cpu_state::CpuState,
    generation::Generation,
    layout,
    parse::{Inner, transport::UpperLayer},
};

#[cfg(not(feature = "tcx"))]
pub use self::answer::answer;
use crate::{
    classify, ends,
    first::first,
    frame::{self, Context},
    headers, interface, interruption, listener,
    map_words::MapWord,
    maps::{ANSWERED, CHALLENGE, CHALLENGE_KEY, CHALLENGE_TAKEN, FamilyMaps, OF_CPU},
    settings::settings,
    subprogram::{on_stack, opaque, opaque_pointer, opaque_ref},
};

/// The challenge by the rules of the generation of settings, for the packet of a context.
pub struct MapChallenge {
    settings: Settings,
    context: *mut Context,
    cpu_state: *mut CpuState,
}

impl MapChallenge {
    /// The challenge on a CPU that keeps this.
    ///
    /// # Safety
    ///
    /// `cpu_state` is a live map value.
    #[inline(always)]
    pub const unsafe fn new(
        settings: Settings,
        context: *mut Context,
        cpu_state: *mut CpuState,
    ) -> Self {
        Self {
            settings,
            context,
            cpu_state,
        }
    }

    /// Computed on demand, because most packets do not need it.
    #[inline(always)]
    fn generation(&self) -> Generation {
        Settings::from_bits(opaque(self.settings.to_bits())).generation()
    }

    /// This CPU's state. `None` if programs on a CPU can interrupt each other.
    #[inline(always)]
    fn own(&self) -> Option<&mut challenge::LocalState> {
        own(self.cpu_state)
    }

    /// This CPU's state on any kernel. It must not be written where [`own`](Self::own) returns
    /// `None`.
    #[inline(always)]
    fn own_unchecked(&self) -> &mut challenge::LocalState {
        own_unchecked(self.cpu_state)
    }
}

impl<A: FamilyMaps> ChallengeState<A> for MapChallenge {
    #[inline(always)]
    fn rules(&self) -> Option<&Rules> {
        Some(CHALLENGE.get().of(self.generation()))
    }

    #[inline(always)]
    fn cookie(&self, message: &Message) -> u32 {
        let [first, second, third, fourth, last] = message.0;
        answer::hash_cookie(first, second, third, fourth, last)
    }

    #[inline(always)]
    fn listener_cookie(&self, segment: &Segment<A>) -> Option<ListenerCookie> {
        let rules = CHALLENGE.get().of(self.generation());
        if !rules.asks_listeners() {
            return None;
        }
        listener::cookie(self.context, segment.offsets, A::BITS > 32)
    }

    #[inline(always)]
    fn write_options(&self, request: Request, now: Instant) -> Option<Written> {
        answer::write_options(self.context, request, now)
    }

    #[inline(always)]
    fn acknowledges_listener(&self, segment: &Segment<A>) -> bool {
        listener::acknowledges(self.context, segment.offsets, A::BITS > 32)
    }

    #[inline(always)]
    fn takes(&self, which: Shared, now: Instant) -> bool {
        take(which, self.generation(), now)
    }

    #[inline(always)]
    fn passes(&self, traffic: Traffic, source: &A, now: Instant) -> bool {
        // Read again: the compiler would keep its bits up to here, for which the stack has no room.
        let source = || opaque_ref(source);
        // If programs on a CPU can interrupt each other, nothing is recorded about the next
        // packets, so none passes.
        self.own_unchecked()
            .passes(traffic, source, self.settings.generation(), now)
    }

    #[inline(always)]
    fn passes_but_to_dns(&self, now: Instant) -> bool {
        self.own_unchecked()
            .passes_but_to_dns(self.settings.generation(), now)
    }

    #[inline(always)]
    fn set_counted(&self, traffic: Traffic, counted: Option<Counted>) {
        if let Some(own) = self.own() {
            own.set_counted(traffic, counted, self.settings.generation());
        }
    }

    #[inline(always)]
    fn set_passes_verified(&self, traffic: Traffic, until: Instant) {
        if let Some(own) = self.own() {
            own.set_passes_verified(traffic, until);
        }
    }

    #[inline(always)]
    fn is_idle(&self, now: Instant) -> bool {
        // If programs on a CPU can interrupt each other, it is never recorded.
        self.own_unchecked().is_idle(now)
    }

    #[inline(always)]
    fn set_idle_until(&self, until: Instant) {
        if let Some(own) = self.own() {
            own.set_idle_until(until);
        }
    }

    #[inline(always)]
    fn invalidate_next(&self) {
        if let Some(own) = self.own() {
            own.invalidate_next();
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
        unsafe { interruption::add([(&raw mut (*self.cpu_state).challenge.unanswered, 1)]) };
    }

    #[inline(always)]
    fn until(&self, traffic: Traffic) -> Instant {
        // SAFETY: an aligned word of a live map value.
        Instant::from_nanos(unsafe { (&raw const (*on(traffic)).until_ns).read_volatile() })
    }

    #[inline(always)]
    fn paused_until(&self) -> Instant {
        ends::of(layout::ends::PAUSE)
    }

    #[inline(always)]
    fn set_until(&self, traffic: Traffic, until: Instant) {
        // SAFETY: as above.
        unsafe { (&raw mut (*on(traffic)).until_ns).write_volatile(until.as_nanos()) };
    }

    #[inline(always)]
    fn set_since(&self, traffic: Traffic, since: Instant) {
        // SAFETY: as above.
        unsafe { (&raw mut (*on(traffic)).since_ns).write_volatile(since.as_nanos()) };
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
            .is_some_and(|own| own.verified.knows(opaque_ref(source), now))
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
        // If there is no room, the source is challenged again.
        let _ = A::VERIFIED.insert(source, verified.to_bits(), 0);
    }
}

/// A CPU's state of the challenge. `None` if programs on a CPU can interrupt each other.
#[inline(always)]
fn own<'a>(cpu_state: *mut CpuState) -> Option<&'a mut challenge::LocalState> {
    if interruption::is_possible() {
        return None;
    }
    Some(own_unchecked(cpu_state))
}

#[inline(always)]
fn own_unchecked<'a>(cpu_state: *mut CpuState) -> &'a mut challenge::LocalState {
    // In a separate register: the compiler would otherwise read the pointer from the stack for each
    // word.
    let cpu_state = opaque_pointer(cpu_state);
    // SAFETY: a live map value of this CPU without other references. If XDP programs can interrupt
    // each other on a CPU, it is only read.
    unsafe { &mut (*cpu_state).challenge }
}

#[inline(always)]
fn on(traffic: Traffic) -> *mut Period {
    // SAFETY: both lie in the live map value.
    let [connections, queries] = unsafe {
        let on = (&raw mut (*CHALLENGE_TAKEN.as_ptr()).periods).cast::<Period>();
        [on, on.add(1)]
    };
    match traffic {
        Traffic::Connections => connections,
        Traffic::Queries => queries,
    }
}

#[inline(always)]
pub fn key() -> Key {
    let word = |index| CHALLENGE_KEY.get(index).copied().unwrap_or_default();
    Key([word(0), word(1)])
}

subprograms! {
    /// Takes one from a shared budget. `false` if it is spent. All budgets are one path for the
    /// verifier.
    fn take(which: Shared, generation: Generation, now: Instant) -> bool {
        let which = which as usize & 3;
        let rules = CHALLENGE.get().of(generation);
        let Some(budget) = rules.shared().get(which) else {
            return false;
        };
        // SAFETY: the words of all budgets are at the beginning of the live map value, and there
        // are as many as budgets.
        let word = MapWord(unsafe { CHALLENGE_TAKEN.as_ptr().cast::<u64>().add(which) });
        let Some(share) = first(&OF_CPU)
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

    /// [`challenge::judge`] of the packet of `context`.
    pub fn judge_source[judge_source_v4, judge_source_v6]<A>(
        context: *mut Context, source: &A, upper: UpperLayer, settings: Settings, now: Instant
    ) -> challenge::Effect {
        let Some(cpu_state) = first(&OF_CPU) else {
            return challenge::Effect::Unasked;
        };
        // SAFETY: it was found in the map.
        let state = unsafe { MapChallenge::new(settings, context, cpu_state) };
        let on_stack = on_stack(source);
        let source = &*on_stack;
        // Packets inside a tunnel are not answered.
        if headers::inner(context, settings.generation()) != Inner::NONE {
            return challenge::without_challenge(source, now, &state);
        }
        challenge::record_idle::<A, _>(now, &state);
        let (frame, is_copied) = frame::reread(context);
        // A copy cannot be answered in place. The compiler must not merge the values of a segment
        // and none: the verifier would see uninitialized stack slots.
        if !is_copied
            && let Some(segment) = challenge::segment::<A>(frame, interface::link_layer(), upper)
        {
            let classes = |asks_headers| classify::classes_outside(context, upper, asks_headers);
            return challenge::judge(source, &segment, classes, now, &state);
        }
        if !is_copied
            && let Some(port) = query::port(frame, upper)
        {
            let is_query = || answer::question_bytes(context).is_some();
            return challenge::judge_datagram(source, port, is_query, now, &state);
        }
        challenge::without_challenge(source, now, &state)
    }

    /// [`challenge::is_unproved`] of the packet of `context`.
    pub fn is_unproved[is_unproved_v4, is_unproved_v6]<A>(
        context: *mut Context, source: &A, now: Instant
    ) -> bool {
        let settings = settings();
        let Some(cpu_state) = first(&OF_CPU) else {
            return false;
        };
        if headers::inner(context, settings.generation()) != Inner::NONE {
            return false;
        }
        let (frame, is_copied) = frame::reread(context);
        if is_copied {
            return false;
        }
        let link_layer = interface::link_layer();
        let walk = |cursor: Cursor<'_>, first| headers::walk(context, cursor, first);
        let Some(upper) = challenge::upper::<A>(frame, link_layer, walk) else {
            return false;
        };
        // SAFETY: it was found in the map.
        let state = unsafe { MapChallenge::new(settings, context, cpu_state) };
        let classes = |asks_headers| classify::classes_outside(context, upper, asks_headers);
        let on_stack = on_stack(source);
        let source = &*on_stack;
        challenge::is_unproved(source, frame, link_layer, upper, classes, now, &state)
    }
}
