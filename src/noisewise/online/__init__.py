"""Learning on the fly from people who never reveal their value: questions that sharpen, answers that are noisy.

The survey:
    survey              ask, learn, forget: one person after another; verdict: how far to trust it
    engine, log         what is known as a pure step over an append-only log; answers: those so far, by question
    sessions, store     the ids of its queries; the survey as a file
    stopping            when to stop, and how many answers that will take
    compare, fit        which population the answers speak for; whether the fitted one describes the people
    simulate, collect   simulated people, one or a whole survey of them
The next question:
    design              the one whose answer is worth most, at a draw of the posterior
    scores              what makes a question good
    candidates          the questions that are weighed; interval: the best interval, solved once for a base law
    answer_information  how much an answer tells
The law of an answer:
    asked, answered     a question as numbers; past answers by question, with their joint law
    survey_law          everything unknown, one column or several, and the law of answers given it
    answer_law          log p(answer | question, theta), for many theta at once; contamination: of answers not true
    clipped_normal_sum  clipped answers of normal populations, compiled; mills: its one special function, by table
    clipped_smooth      clipped answers of other smooth populations, compiled
    clipped_pieces      clipped answers of exponential, Laplace and uniform populations, compiled
    clipped_record      clipped answers of discrete ones
Who learns:
    particles           sequential Monte Carlo over theta alone
    latent_particles    the published method, which carries everyone's private value too: a baseline
"""
