# The page and API of slalom, at http://localhost:8000 (other names: --allowed-host NAME; SLALOM_TOKEN sets a secret):
#   docker build -f docker/serve.Dockerfile -t slalom-serve .
#   docker run -p 127.0.0.1:8000:8000 slalom-serve
FROM python:3.11-slim
WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir --constraint constraints.txt --extra-index-url https://download.pytorch.org/whl/cpu '.[web]' \
    && useradd --create-home --uid 1000 slalom
USER 1000
ENV HF_HUB_OFFLINE=1
EXPOSE 8000
ENTRYPOINT ["slalom", "serve", "--host", "0.0.0.0", "--port", "8000"]
