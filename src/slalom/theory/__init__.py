"""What the two papers prove, as code: closed forms, planted models and demonstrations (maths 4, 5).

Nothing is imported here, so that `import slalom.theory` loads no torch:

    attention_layer    the one-layer attention classifier, a Hugging Face model
    layer              the same layer in NumPy: what every closed form starts from
    gradients          its gradient at every position, and four readings of it
    attention_weights  α-avg and α-max
    masking            its output as a function of which words are masked
    lime_limit         what LIME converges to on it with a large bandwidth …
    lime_bandwidth     … and with any bandwidth, exactly
    lemmas             the quotient lemma behind the LIME theorem
    attributions       Shapley values, occlusion, integrated gradients, SmoothGrad, without sampling
    attention_bounds   what attention certifies, and how else it could be at equal output
    anchors            Anchors on it: the search, and the exact answer for one head
    heads              a head as a SLALOM, and how the average of heads departs from one
    several_heads      when the average is a SLALOM, how far the nearest one is, heads from outputs alone
    perceptron         the layer with a skip connection and a perceptron on top
    planted            the transformer that is a given SLALOM, or an average of them (Prop. 5.1)
    stacks             random and real stacks on repeated tokens (Prop. 4.1, Cor. 4.2)
    mlp_bound          what a feed-forward part could memorise (section 4.3)
    histogram          the counting task with two kinds of solution
    curvature          whether they are minima
    train              the training recipe of the one-layer classifier
"""
