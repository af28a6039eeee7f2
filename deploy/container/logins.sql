-- Creates logins for the service, for loads and for key administration, each with its role (`counterfoil migrate --roles`).
-- The variables api, load and ops contain the passwords. The script is safe to run again; it then resets the passwords.
SELECT format('CREATE ROLE %I LOGIN IN ROLE %I', login, role)
FROM (VALUES
    ('cf_api', 'counterfoil_serving'),
    ('cf_load', 'counterfoil_loading'),
    ('cf_ops', 'counterfoil_administration')
) AS wanted (login, role)
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = login)
\gexec
ALTER ROLE cf_api PASSWORD :'api';
ALTER ROLE cf_load PASSWORD :'load';
ALTER ROLE cf_ops PASSWORD :'ops';
