"""What the two papers prove, as code: closed forms, planted models and demonstrations (maths 4, 5).

Nothing is imported here, so that `import slalom.theory` loads no torch:

    attention_layer    the one-layer attention classifier, a Hugging Face model (trained by `slalom train`)
    layer              the same layer in NumPy: what closed forms start from; its attention and gradient,
                       its output as a function of which words are masked
    lime               what LIME converges to on it, at every bandwidth, exactly
    attributions       Shapley values, occlusion, integrated gradients, SmoothGrad, without sampling
    bounds             what attention certifies, how else it could be at equal output; the lemmas behind LIME
    anchors            Anchors on it: the search, and the exact answer for one head
    heads              a head as a SLALOM, when the average of heads is one, the nearest one and its distance
    perceptron         the layer with a skip connection and a perceptron on top; what one could memorise
    planted            the transformer that is a given SLALOM, or an average of them (Prop. 5.1)
    stacks             random and real stacks on repeated tokens (section 4)
    histogram          the counting task with two kinds of solution, and whether they are minima
"""
