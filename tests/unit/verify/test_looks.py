"""How long readers were held up, from what the broker shows look by look."""

from twophase.verify.looks import Look, Settled, Stalls


def held(steps):
    """The longest stall, and all that ended, of looks given as (time, end, stable)."""
    stalls = Stalls()
    ended = [
        (stall.offset, stall.began_s, stall.ended_s)
        for at_s, end, stable in steps
        for stall in stalls.look(Look(at_s, {0: end}, {0: stable}))
    ]
    return stalls.longest_s, ended


def test_rows_that_are_visible_at_once_hold_nobody_up():
    """The end moves, and the last stable offset with it."""
    assert held([(0.0, 0, 0), (1.0, 10, 10), (2.0, 20, 20)]) == (0.0, [])


def test_a_stall_is_from_the_first_sign_of_a_row_until_it_may_be_read():
    """An open transaction: the end moves at 1 s, the last stable offset at 4 s."""
    assert held([(1.0, 10, 0), (2.0, 10, 0), (4.0, 10, 10)]) == (3.0, [(0, 1.0, 4.0)])


def test_later_rows_behind_an_open_transaction_wait_from_their_own_time():
    """Rows at 1 s and 3 s; those of 1 s are revealed at 4 s, the rest at 9 s."""
    steps = [(1.0, 10, 0), (3.0, 30, 0), (4.0, 30, 10), (9.0, 30, 30)]
    assert held(steps) == (6.0, [(0, 1.0, 4.0), (10, 3.0, 9.0)])


def test_rows_revealed_in_part_go_on_waiting():
    """The last stable offset stops within what came at once."""
    steps = [(1.0, 10, 0), (2.0, 10, 4), (5.0, 10, 10)]
    assert held(steps) == (4.0, [(0, 1.0, 2.0), (4, 1.0, 5.0)])


def test_what_is_still_hidden_counts_up_to_the_last_look():
    """A transaction that is left open stalls its readers for as long as anyone looks."""
    assert held([(1.0, 10, 0), (6.0, 10, 0)]) == (5.0, [])


def test_the_longest_stall_is_that_of_any_partition():
    """Partitions wait on their own."""
    stalls = Stalls()
    for at_s, stable in ((0.0, {0: 0, 1: 0}), (1.0, {0: 9, 1: 0}), (7.0, {0: 9, 1: 9})):
        list(stalls.look(Look(at_s, {0: 9, 1: 9}, stable)))
    assert stalls.longest_s == 7.0


def test_only_settled_looks_are_believed_and_nothing_is_taken_back():
    """What was shown once stays shown; a partition that no look names is never shown."""
    shown = [
        Look(0.0, {0: 9}, {0: 2}),
        Look(1.0, {0: 9}, {0: 9}, settled=False),
        Look(2.0, {0: 9}, {0: 1}),
        Look(3.0, {0: 9}, {0: 5}),
    ]
    settled = Settled.of(shown)
    assert settled.times_s.tolist() == [0.0, 2.0, 3.0]
    assert settled.first_shown(0, [0, 1, 2, 4, 5]).tolist() == [0, 0, 2, 2, 3]
    assert settled.first_shown(1, [0]).tolist() == [3]
