# The command line of slalom:
#   docker build -f docker/cli.Dockerfile -t slalom .
#   docker run slalom explain "not bad, just dull"
FROM python:3.11-slim
WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir --constraint constraints.txt --extra-index-url https://download.pytorch.org/whl/cpu . \
    && useradd --create-home --uid 1000 slalom
USER 1000
ENTRYPOINT ["slalom"]
